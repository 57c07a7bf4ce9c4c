"""What jobs.export may not swallow: command lines, folders that are no exports, damaged models, and what is said."""

EXPORT = "--model run --format sentence-transformers --out made"
ONNX = "--model copy --format onnx --out made"
COPY = "--model copy --format sentence-transformers --out made"
OF_OPTIONS = [
    ("", "--model"),
    ("--model run --out made", "--format"),
    ("--model run --format onnx", "--out"),
    (f"{EXPORT} --format openvino", "invalid choice 'openvino' for argument '--format'"),
    ("--model '' --format onnx --out made", "--model is empty; give a path"),
    ("--model run --format onnx --out ''", "--out is empty; give a path"),
    (f"{ONNX} --texts ''", "--texts is empty; give a path"),
    (f"{EXPORT} --int8", "--int8 is about an ONNX graph; give --format onnx, or leave it out"),
    (f"{EXPORT} --texts l.csv", "--texts is about an ONNX graph; give --format onnx, or leave it out"),
    (f"{EXPORT} --licence ' '", "--licence is empty; give an identifier such as apache-2.0"),
    (f"{EXPORT} --model nowhere", "nowhere holds no config.json; give the folder of a run"),
    (f"{EXPORT} --model task", "task holds no config.json; give the folder of a run"),
    (f"{EXPORT} --model enc", "enc is an encoder, without scorer.json; give a run, or the model folder of a round"),
    (f"{EXPORT} --out run", "run is there and is no export (it has no export.json); choose another --out"),
    (f"{EXPORT} --out task", "task is there and is no export (it has no export.json); choose another --out"),
    (f"{EXPORT} --out l.csv", "l.csv is there and is no export"),
    (f"{COPY} --out l.csv/made", "l.csv/made"),
    (f"{EXPORT} --out run/round-001/model/made", "lies in the model folder"),
    (f"{EXPORT} --out s3://bucket/made", "--out s3://bucket/made is on an object store; give a local folder"),
    ("--model copy --format onnx --int8 --out made", "--int8 is measured on dev, and"),
    (
        f"{ONNX} --texts nowhere.txt",
        "--texts nowhere.txt cannot be read (No such file or directory); give a UTF-8 file",
    ),
    (f"{ONNX} --texts task", "--texts task cannot be read (Is a directory)"),
    (f"{ONNX} --texts s.parquet", "--texts s.parquet cannot be read ('utf-8' codec"),
]
OF_FOLDERS = [
    ({"blank.txt": "\n \n"}, f"{ONNX} --texts blank.txt", "--texts blank.txt has no text; give a UTF-8 file"),
    ({"run/state.json": '{"round": 0}'}, EXPORT, "run has no complete round, and so no model"),
    ({"run/config.json": "{}"}, EXPORT, "config.json lacks task_digest"),
    ({"run/round-001/record.json": "{}"}, EXPORT, "record.json lacks model"),
    ({"run/round-001/labels.parquet": 50}, EXPORT, "labels.parquet cannot be read"),
    ({"run/round-001/model/model.safetensors": None}, EXPORT, "has no weights"),
    ({"run/round-001/model/scorer.json": "{"}, EXPORT, "scorer.json cannot be read"),
    ({"run/round-001/model/scorer.json": '{"thresholds": [1]}'}, EXPORT, "scorer.json: the field thresholds"),
    ({"run/round-001/model/scorer.json": '{"digest": "x"}'}, EXPORT, "scorer.json lacks weight, bias"),
    ({"task/task.json": "{"}, EXPORT, "task/task.json"),
    ({"copy/scorer.json": "{"}, COPY, "copy/scorer.json cannot be read"),
    ({"copy/model.safetensors": None}, COPY, "copy"),
    ({"copy/model.safetensors": 90}, COPY, "copy"),
    ({"copy/sentence_bert_config.json": "{}"}, COPY, "lacks max_seq_length"),
    (
        {"copy/vocab.json": "{}", "copy/sentence_bert_config.json": None},
        COPY,
        "copy has the encoder cnn, which knows the words of its task only; give a model with another encoder",
    ),
    ({"exported/export.json": "{"}, f"{EXPORT} --out exported", "exported/export.json cannot be read"),
    (
        {"exported/export.json": "{}"},
        f"{EXPORT} --out exported",
        "exported/export.json lacks format, digest, made_from",
    ),
    (
        {"exported/export.json": '{"format": "onnx", "digest": "x", "made_from": "y"}'},
        f"{EXPORT} --out exported",
        "exported holds an export of another model; choose another --out",
    ),
]
OF_EXPORT = [*(({}, *case) for case in OF_OPTIONS), *OF_FOLDERS]
