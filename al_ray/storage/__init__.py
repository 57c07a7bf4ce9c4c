"""Files on local disks and object stores (s3://, gs://): atomic writes, locks and caches."""
