//! What `--help` says of each command below its flags: examples, what is printed, and what to do next.

/// Of `millstream dispatcher`.
pub(crate) const DISPATCHER: &str = "\
Prints `dispatcher listening on ADDRESS` once it serves. Ctrl-C or SIGTERM ends it with a farewell. Its records are kept
in memory: workers and readers of one that was restarted begin anew.

Examples:
  millstream dispatcher                                    on this machine only
  millstream dispatcher --bind 0.0.0.0:5050 --key dispatcher.key   for others, with a key they have too";

/// Of `millstream worker`.
pub(crate) const WORKER: &str = "\
Prints `worker serving on ADDRESS for dispatcher HOST:PORT` once it is registered. Ctrl-C or SIGTERM ends it with a
farewell: its tasks go to others at once. Killed, it is missed after the dispatcher's --liveness-s.

Examples:
  millstream worker                                        for the dispatcher on this machine
  millstream worker --dispatcher head:5050 --bind 0.0.0.0:5051 --advertise node7:5051 --key worker.key
  millstream worker --threads 4 --tags gpu,rack3";

/// Of `millstream read`.
pub(crate) const READ: &str = "\
Prints a line for each epoch: elements, bytes and rates, the share of the time that was spent waiting, what is the
bottleneck (trainer, network or workers), and a digest. The digest depends on the rows alone, not on their order, the
batches or who computed them. Splits that were lost with a worker are named on standard error, and the command fails.

Examples:
  millstream read --files 'examples/data/*.tar' --epochs 3
  millstream read --range 1000000 --batch 0
  millstream read --range 1000000 --job-name shared        run it twice: each gets a part";

/// Of `millstream status`.
pub(crate) const STATUS: &str = "\
Prints a table for each kind of thing there is:
  WORKER     STATE is `alive` with the time since its last sign of life, or `dead` with the reason
  DATASET    ELEMENTS is how many it has, where that is known
  JOB        a reading of a dataset; SHARDING is how the dataset is dealt out to the workers
  ITERATION  one PASS of a job, counted from 0. Under DYNAMIC its splits are DONE (received whole by a reader), LEASED (at
             a worker), REMAINING (not dealt out yet) or LOST (begun by a worker that died)
  TASK       a worker's share of an iteration, and how many splits it has LEASED
  LOST IN    the lost splits of an iteration: COUNT of them from FIRST SPLIT on

Examples:
  millstream status
  millstream status --dispatcher head:5050 --key read.key";

/// Of `millstream key`.
pub(crate) const KEY: &str = "\
Prints a key to standard output. The cluster key may do everything, so give each machine only what it needs: the key of
its role, in a file that its user alone can read, named by --key or MILLSTREAM_KEY there.

Examples:
  millstream key --generate > cluster.key                  a new cluster key
  millstream key --key cluster.key --role worker > worker.key      for the machines that compute
  millstream key --key cluster.key --role submit > submit.key      for trainers that register datasets
  millstream key --key cluster.key --role read > read.key          for trainers that only read";

/// Of `millstream demo`.
pub(crate) const DEMO: &str = "\
Starts a dispatcher and workers as processes of its own, with a key of their own, on free ports of this machine, and ends
them. Prints a line for each epoch and, at the end, that every picture was seen exactly once in each of them; it fails,
naming what is missing or came too often, if that is not so.

Examples:
  millstream demo
  millstream demo --workers 4 --epochs 10
  millstream demo --data /data/photos --dump-keys keys.txt";
