"""What the jobs that train models of labels, compare runs and make many of them may not swallow."""

from tests.bad_cases import HUGE

TRAIN = "--task task --labels stated --out made --encoder random-bert --evaluation.splits dev"
REPRODUCE = "table3 --task synthetic --out made --encoder random-bert"
GRID = "--task task --out made --encoder random-bert"

OF_TRAIN = [
    ({}, "", "error: Missing from python -m jobs.train: --task STR"),
    ({}, "--task nowhere --labels stated --out made", "nowhere holds no task.json"),
    ({}, f"{TRAIN} --labels nowhere", "--labels nowhere is not there; give the folder of a run"),
    ({}, f"{TRAIN} --labels judge.py", "judge.py: its extension is none of"),
    ({}, f"{TRAIN} --labels judge.py --format csv", "judge.py"),
    ({}, f"{TRAIN} --labels task", "task holds no config.json; give the folder of a run, a table of labels, or stated"),
    ({}, f"{TRAIN} --labels ''", "--labels is empty; give a path"),
    ({}, f"{TRAIN} --labels s3://bucket/run.csv", "s3://bucket/run.csv"),
    ({}, f"{TRAIN} --labels l.csv", "'left_id'"),
    ({}, f"{TRAIN} --labels l.csv --columns left", "--columns is left; give three"),
    ({}, f"{TRAIN} --labels l.csv --columns left,right,label", "l.csv holds 1 labels that say yes or no"),
    (
        {"l.csv": "left,right,label\nt0,t1,1\nt0,t2,perhaps\n"},
        f"{TRAIN} --labels l.csv --columns left,right,label",
        "l.csv:3: its label is 'perhaps'",
    ),
    ({"l.csv": "left,right,label\nt0,t999,1\n"}, f"{TRAIN} --labels l.csv --columns left,right,label", "t999"),
    ({}, f"{TRAIN} --labels run --task two", "run belongs to another task than --task; give a run of the same task"),
    ({}, f"{TRAIN} --task lonely --evaluation.splits", "no pair is stated in the training split"),
    ({}, f"{TRAIN} --model tree", "tree"),
    ({}, f"{TRAIN} --concat-batch 0", "--concat-batch is 0; give at least 1"),
    ({}, f"{TRAIN} --slice-pairs 0", "--slice-pairs is 0; give at least 1"),
    ({}, f"{TRAIN} --top 0", "--top is 0; give at least 1"),
    ({}, f"{TRAIN} --top {HUGE}", "--top is 9"),
    ({}, f"{TRAIN} --training.workers 2", "--training.workers is for --model cosine; leave it out"),
    ({}, f"{TRAIN} --evaluation.mode exact", "--evaluation.mode exact counts cosines"),
    ({}, f"{TRAIN} --model cosine --rerank run", "--rerank and --like are for --model concat; leave them out"),
    ({}, f"{TRAIN} --rerank nowhere", "nowhere holds no config.json"),
    ({}, f"{TRAIN} --rerank run --task two", "run is a run of another task; give one of the same task"),
    ({}, f"{TRAIN} --rerank run --evaluation.splits", "--rerank measures on --evaluation.splits, and none is named"),
    ({}, f"{TRAIN} --like nowhere", "nowhere holds no config.json"),
    ({}, f"{TRAIN} --evaluation.splits test", "has no test pairs"),
    ({}, f"{TRAIN} --out task/made", "task"),
    ({}, f"{TRAIN} --bad-rows keep", "keep"),
]
OF_REPRODUCE = [
    ({}, "", "error: Missing from python -m jobs.reproduce: "),
    ({}, "table1 --task synthetic --out made", "table1"),
    ({}, "table3 --task nowhere --out made", "nowhere holds no task.json"),
    ({}, f"{REPRODUCE} --strategy static", "--strategy is static; the table decides it: leave it out"),
    ({}, f"{REPRODUCE} --seeding stated", "--seeding is stated; the table decides it: leave it out"),
    ({}, f"{REPRODUCE} --oracle file", "--oracle is file; the table decides it: leave it out"),
    ({}, f"{REPRODUCE} --seeds 0", "--seeds is 0; give at least 1"),
    ({}, f"{REPRODUCE} --evaluation.splits dev", "--evaluation.splits lacks test"),
    ({}, f"{REPRODUCE} --task task", "has no test pairs"),
    ({}, f"{REPRODUCE} --concat.epochs 0", "--concat.epochs is 0; give at least 1"),
    ({}, f"{REPRODUCE} --concat.batch 0", "--concat.batch is 0; give at least 1"),
    ({}, f"{REPRODUCE} --rounds 0", "--rounds is 0; give at least 1"),
    ({}, f"{REPRODUCE} --concurrent 0", "--concurrent is 0; give at least 1"),
    ({}, f"{REPRODUCE} --out synthetic/made", "synthetic"),
    ({"synthetic/task.json": "{}"}, REPRODUCE, "synthetic/task.json cannot be read"),
]
OF_GRID = [
    ({}, "", "error: Missing from python -m jobs.grid: --task STR"),
    ({}, f"{GRID} --strategies best", "--strategies has best; give some of uncertainty"),
    ({}, f"{GRID} --strategies static,static", "--strategies is static,static; give each value once"),
    ({}, f"{GRID} --seeds 1.5", "1.5"),
    ({}, f"{GRID} --seed 1 --seeds 1,2", "--seed is given, and so is the axis --seeds"),
    ({}, f"{GRID} --strategies stratified-match", "learns from the runs of uncertainty; add uncertainty"),
    ({}, f"{GRID} --budgets 2", "--budgets has 2, which is less than 4 rounds buy"),
    ({}, f"{GRID} --file nowhere.toml", "nowhere.toml cannot be read"),
    ({}, f"{GRID} --file p.tsv", "p.tsv cannot be read"),
    ({}, f"{GRID} --out run", "run is the folder of a run; give a grid a folder of its own"),
    ({}, f"{GRID} --task nowhere", "nowhere holds no task.json"),
    ({}, f"{GRID} --evaluation.splits test", "has no test pairs"),
]
OF_REPORT = [
    ({}, "--out made", "no folder is given; give folders that jobs.run or jobs.grid made"),
    ({}, "run", "error: Missing from python -m jobs.report: --out PATH|URI"),
    ({}, "nowhere --out made", "nowhere holds neither config.json nor grid.json"),
    ({}, "task --out made", "task holds neither config.json nor grid.json"),
    ({}, "run --out run", "--out run is a folder of something else (it has config.json)"),
    ({}, "run --out task", "--out task is a folder of something else (it has task.json)"),
    ({}, "run --out made --examples -1", "--examples is -1; give at least 0"),
    ({"run/config.json": "{}"}, "run --out made", "config.json lacks task_digest"),
]
OF_MODELS = [
    *(("train", *case) for case in OF_TRAIN),
    *(("reproduce", *case) for case in OF_REPRODUCE),
    *(("grid", *case) for case in OF_GRID),
    *(("report", *case) for case in OF_REPORT),
]
