//! The texts that `--help` shows below the flags of each command: explanations and examples.
//!
//! Each paragraph is a single line, which clap wraps at the width of the terminal.

/// The text below the flags of `millstream dispatcher`.
pub(crate) const DISPATCHER: &str = "\
Prints `dispatcher listening on ADDRESS` once the dispatcher serves. Ctrl-C or SIGTERM ends the dispatcher with a goodbye message.

With --work-dir the dispatcher stores every record on disk before it answers. After any end of the process, start the dispatcher again \
at the same address and with the same directory. Readers continue to read meanwhile, workers and readers reconnect without help, and no \
split is lost or read twice. If the dispatcher is unreachable for longer than 30 s, workers give up their tasks, as if the workers had \
died. Only one dispatcher at a time can use a directory. While the disk is full, the dispatcher refuses requests that it cannot store, \
and accepts them again when the disk has room. The dispatcher ends with an error if the disk fails, or if its store is removed or \
replaced. Without --work-dir, a restart of the dispatcher ends all jobs: workers register again, and readers fail with an error.

The dispatcher deletes unused records after their lifetimes, also from the work directory. A reader that joins a finished iteration \
before its deletion reaches the end at once. After the deletion, the iteration starts again, and the job's name is free.

Examples:
  millstream dispatcher
  millstream dispatcher --work-dir /var/lib/millstream
  millstream dispatcher --bind 0.0.0.0:5050 --key dispatcher.key
  millstream dispatcher --worker-addresses node1:5051,node2:%port%,node2:%port%
      Static sharding policies divide a dataset among these three workers.
  millstream dispatcher --job-gc-timeout-s 3600 --gc-dynamic-sharding-jobs
      The dispatcher deletes iterations that had no reader for an hour.";

/// The text below the flags of `millstream worker`.
pub(crate) const WORKER: &str = "\
Prints `worker serving on ADDRESS for dispatcher HOST:PORT` once the worker is registered.

SIGTERM starts a graceful shutdown. The worker accepts no more work, gives back the splits that it has not started, delivers the elements \
that it has begun, and ends. Under sharding `dynamic` no split is lost and none is read twice. Under the other policies the worker's tasks \
end, and the next worker with the same number starts its share from the beginning. The worker waits for a paused reader until \
--drain-deadline-s.

A second signal, or Ctrl-C, ends the worker at once with a goodbye message. Other workers then read the splits that the worker had begun, \
or the reader reports the lost splits. The dispatcher notices a killed worker within about a second, because the worker's system reports \
the closed port. Without this report, the dispatcher waits for three times its --liveness-s.

Examples:
  millstream worker
  millstream worker --threads 4 --tag gpu --tag rack3
  millstream worker --dispatcher head:5050 --key worker.key --bind 0.0.0.0:0
  millstream worker --isolation strict --allow-path /data";

/// The text below the flags of `millstream read`.
pub(crate) const READ: &str = "\
Prints a line for each epoch: elements, bytes, rates, the share of the time that was spent waiting, the bottleneck and a digest. The \
bottleneck is trainer, workers, network or dispatcher, or `none` if nothing was read. The digest depends only on the rows, not on their \
order, their batches, or the workers that computed them. Standard error shows the transport of each worker, and the reason if a better \
transport was not possible. Standard error also names workers that are given up, and the splits that were lost with these workers.

Exits with 0 if every epoch was read to its end and no split was lost, or if --on-lost is `warn` or `ignore`. Exits with 1 if splits were \
lost (after the rest of that epoch was read), if reading failed, or if the command was interrupted. Exits with 2 if the flags are wrong.

Under the sharding policies `file`, `data`, `file_or_data` and `hint`, each worker of the dispatcher's fixed list has its share from the \
start. The command waits for workers of the list that have not registered yet. The command fails if a worker of the list leaves and does not return.

With --trainer-id, each worker keeps a window of its latest elements (--cross-trainer-cache-bytes of the worker). The window moves \
forward with the fastest trainer. A trainer that is slower, or starts later, continues at the oldest element of the window.

Examples:
  millstream read --files 'examples/data/*.tar' --epochs 3
  millstream read --range 1000000 --batch 0
  millstream read --range 1000000 --sharding data
      Each worker of a dispatcher with --worker-addresses yields its share.
  millstream read --range 1000000 --job-name shared
      Run this command twice at the same time: each gets a part of the numbers.
  millstream read --range 1000000 --job-name pair --num-consumers 2 --steps 100 --consumer 0
      Run this command and a second one with --consumer 1 at the same time: both
      advance in step.
  millstream read --range 1000000 --job-name search --steps 100 --trainer-id a
      Run the command again with --trainer-id b: it reads the elements that the
      workers have kept.";

/// The text below the flags of `millstream explain`.
pub(crate) const EXPLAIN: &str = "\
Prints the operations of a dataset. Each operation is printed above its input; the bodies of functions and all inputs but the last of \
several are indented to the right. With --run-s, each operation has these columns:
  ELEMENTS    elements that the operation returned, and their rate PER SECOND
  BUSY        working time, summed over its threads; estimated from samples
  WAITED      time for which the caller waited for the operation's threads
  LOAD        share of the time for which its THREADS were busy; an arrow
              marks the bottleneck, unless the consumer is the bottleneck
  READY       average fill of the operation's buffer, and its capacity in
              elements
The output names the columns in lower case. The last line on standard error names the bottleneck.

Examples:
  millstream explain --files 'examples/data/*.tar'
  millstream explain --files 'examples/data/*.tar' --run-s 5
  millstream explain --definition dataset.cbor --dot | dot -Tsvg > dataset.svg
  millstream explain --dataset 1000 --dispatcher 127.0.0.1:5050
      Explains a dataset that is registered with a service; `millstream status`
      prints the ids of datasets.";

/// The text below the flags of `millstream status`.
pub(crate) const STATUS: &str = "\
Prints one table for each kind of record, and the number of workers that would keep the readers busy:
  WORKER     STATE: alive or draining (in graceful shutdown), with the time
             since its last heartbeat; or dead, with the reason
  DATASET    ELEMENTS: the number of elements, if it is known
  JOB        SHARDING: the policy that distributes the dataset to workers
  ITERATION  one PASS of a job, counted from 0. Under DYNAMIC its splits are
             DONE (received completely by a reader), LEASED (held by a worker),
             REMAINING (not leased yet) or LOST (begun by a worker that died)
  TASK       a worker's part of an iteration: its LEASED splits, its elements
             so far and per second. ELEMENT: time for one element, without
             waits for readers. BOTTLENECK: the slowest stage, or `consumer`
             if the readers are the bottleneck
  CLIENT     a reader of an iteration. ELEMENT: time that its user takes for
             one element, without waits for workers
  LOST IN    the lost splits of an iteration: COUNT splits from FIRST SPLIT on
  SKIPPED IN the splits of an exactly-once job that were given up, because their workers died

Examples:
  millstream status
  millstream status --json
      Prints the status for programs, with ids, counts and rates; times are in ns
      and ms.
  millstream status --metrics
      Prints gauges for Prometheus, for example for the node exporter's text
      files. Autoscalers use the gauge millstream_workers_wanted.
  millstream status --dispatcher head:5050 --key read.key";

/// The text below the flags of `millstream shutdown`.
pub(crate) const SHUTDOWN: &str = "\
Tells the dispatcher, its workers and all readers that the service ends, and returns when the dispatcher is gone. A reader gets an error \
that names the process that ended the service, or the end of its data if it has received all elements. Workers and the dispatcher exit with \
0, each within its --shutdown-quiet-period-s; they do not wait longer for a process that hangs. The command needs the cluster key or a \
`submit` key.

A dispatcher with --work-dir keeps its records: after a restart it continues with its datasets, jobs and iterations. Splits that readers \
and workers held at the end are lost, as if these processes had died.

Examples:
  millstream shutdown
  millstream shutdown --dispatcher head:5050 --key submit.key";

/// The text below the flags of `millstream key`.
pub(crate) const KEY: &str = "\
Prints a key to standard output, or writes the key to a file of mode 0600 with --out. The cluster key permits everything, so give each \
machine only the key of its role. Store that key in a file that only its user can read, and name the file with --key or MILLSTREAM_KEY.

Examples:
  millstream key --generate --out cluster.key
      Makes a new cluster key. The next commands derive keys from it: for worker
      machines, for trainers that register datasets, and for trainers that only
      read.
  millstream key --key cluster.key --role worker --out worker.key
  millstream key --key cluster.key --role submit --out submit.key
  millstream key --key cluster.key --role read --out read.key

Replace a key while the service runs:
  A key file may contain several keys, one per line. A process identifies itself
  with the first key, and accepts the holders of all keys. Change the key files
  of all processes in three steps. After each step restart the dispatcher (with
  --work-dir), then the workers (SIGTERM drains them), then the trainers between
  two runs. The contents of the files in each step:
  1. The old key, then the public half of the new key:
       millstream key --key new.key --public >> worker.key
  2. The new key, then the public half of the old key.
  3. The new key alone. All processes now refuse the holders of the old key.

Refuse a certificate or a key at once:
  Give the dispatcher, the workers and the trainers a file with --revoked FILE
  (or MILLSTREAM_REVOKED). Each process reads a changed file again within a
  second. Each line of the file revokes one of these:
    sha256:DIGITS                 a certificate, as the audit log shows it
    read millstream-public-1:...  the holders of a key in one role
    millstream-public-1:...       the holders of a key in every role
  The command `millstream key --key leaked.key --public` prints the line of a
  key.";

/// The text below the flags of `millstream demo`.
pub(crate) const DEMO: &str = "\
Starts a dispatcher and workers as child processes, with a new key and on free ports of this machine, and ends them afterwards. Prints a \
line for each epoch and, at the end, confirms that every picture was seen exactly once in each epoch. Otherwise the command fails, and \
names the pictures that are missing or were seen too often. The photographs are built into the command; --data names other pictures.

Examples:
  millstream demo
  millstream demo --workers 4 --epochs 10
  millstream demo --data /data/photos --dump-keys keys.txt";

/// The text below the flags of `millstream completions`.
pub(crate) const COMPLETIONS: &str = "\
Examples:
  millstream completions bash > ~/.local/share/bash-completion/completions/millstream
  millstream completions zsh > ~/.zfunc/_millstream
  millstream completions fish > ~/.config/fish/completions/millstream.fish";

/// The text below the flags of `millstream man`.
pub(crate) const MAN: &str = "\
Examples:
  millstream man --out ~/.local/share/man/man1
      Then `man millstream` and, for example, `man millstream-worker` show the
      pages.";
