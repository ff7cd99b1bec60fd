//! The texts that `--help` shows below the flags of each command: explanations and examples.
//!
//! Each paragraph is a single line, which clap wraps at the width of the terminal.

/// The text below the flags of `millstream up`.
pub(crate) const UP: &str = "\
Starts a dispatcher and workers as child processes, and prints `serving at millstream://ADDRESS with COUNT workers` once all of them \
serve. The messages of each process follow its name on standard error.

A process that dies starts again: the first time after 0.1 s, then after twice as long for each death within 60 s, at most after 5 s. The \
command kills a process that does not serve within 90 s after its start. The dispatcher continues with its records, so jobs and readers \
continue. The command fails if a process ends before it has ever served, or dies more often than --restarts-max. A worker that ends \
without an error has not died, and starts again after 6 s.

Ctrl-C or SIGTERM drains the workers, and then ends the dispatcher: readers receive the elements that the workers have begun. With \
--work-dir the readers then wait for the next `millstream up`; otherwise they get an error that the service has ended. A second signal \
ends all processes at once. No process outlives the command, even if the command is killed. `millstream shutdown` also ends the command.

All processes use the key of the command, so --key must name a cluster key and not the key of one role.

Examples:
  millstream up --workers 4
  millstream up --workers 4 --work-dir /var/lib/millstream
  millstream up --workers 2 -- --python /opt/env/bin/python --memory-bytes 4000000000
      All flags after `--` go to the workers.";

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

With --store, several dispatchers share one store on etcd. Each dispatcher has an address of its own, and one of them leads. Give workers \
and readers the addresses of all dispatchers. If the leader ends, hangs or loses its network, another dispatcher continues from its \
records. A former leader that comes back changes nothing.

Examples:
  millstream dispatcher
  millstream dispatcher --work-dir /var/lib/millstream
  millstream dispatcher --store etcd://127.0.0.1:2379/train --bind 127.0.0.1:5051
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
  millstream read --range 1000000 --job-name pair --num-consumers 2 --consumer 0
      Run this command and a second one with --consumer 1 at the same time: both
      advance in step, and end in the same step.
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

With --job and --step, the command prints a line for each trainer of an exactly-once job: the split of the step's batch, the position of the batch in the split, and the records from which the batch was made. The answer is computed from the dataset, the seed and the epoch of the job, and nothing is read. Three conditions must hold: the number of trainers has not changed in the epoch, the trainers read in a fixed order (in_order=True), and no split was skipped. If a filter or the files decide the number of batches, use `loader.lineage(step)` in the trainer.

Examples:
  millstream explain --files 'examples/data/*.tar'
  millstream explain --files 'examples/data/*.tar' --run-s 5
  millstream explain --definition dataset.cbor --dot | dot -Tsvg > dataset.svg
  millstream explain --dataset 1000 --dispatcher 127.0.0.1:5050
      Explains a dataset that is registered with a service; `millstream status`
      prints the ids of datasets.
  millstream explain --job 1001 --step 5000
      Names the records of step 5000; `millstream status` prints the ids of jobs.";

/// The text below the flags of `millstream status`.
pub(crate) const STATUS: &str = "\
Prints the number of workers that the service wants, with the reason, and one table for each kind of record:
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
      files. Autoscalers use the gauge millstream_dispatcher_workers_wanted.
  millstream status --dispatcher head:5050 --key read.key";

/// The text below the flags of `millstream autoscale`.
pub(crate) const AUTOSCALE: &str = "\
The dispatcher decides how many workers the service wants: more as soon as a reader waits for data, fewer after a minute in which workers \
were idle, and none after five minutes without a reader. Workers that do not help the readers are removed again. The command prints a \
line for each new number with its reason, keeps the number between --min and --max, and sets it.

One run of CMD or kubectl takes place at a time. A failed run is reported and repeated: after 1 s, then after twice as long, at most after \
60 s. The number is set again after 60 s if workers are missing, for example after a loss of spot machines. Run one `millstream autoscale` \
for each service. A restart of the command changes nothing.

End workers with SIGTERM, so that they deliver the elements that they have begun. Readers then lose and repeat nothing.

Examples:
  millstream autoscale --max 8 --print
  millstream autoscale --min 1 --max 8 --exec ./set-workers
      The script gets the number in MILLSTREAM_WANTED.
  millstream autoscale --max 64 --kubernetes millstream-worker --namespace training";

/// The text below the flags of `millstream doctor`.
pub(crate) const DOCTOR: &str = "\
Prints a line for each check: `ok`, `warning` or `problem`, the name of the check, and what was found. The next line names the cure:
  key            the key in use, its source, role and fingerprint
  udp            a datagram on loopback and back
  udp-buffers    the socket buffers that the kernel grants
  mtu            the packet size on the way to the dispatcher
  shared-memory  the memory file and the socket of a worker, and --shm-dir
  dev-shm        the size of /dev/shm
  memory         the memory for a worker with default settings
  open-files     the limit on open files
  python         the interpreter of a worker, and its package millstream
  s3, gs, az     the names of visible credentials
  dispatcher     a connection over QUIC with the key, and its round trip
  workers        living, draining and dead workers of the service
  versions       the versions of the workers
The checks run at the same time and end within about 15 s, even if nothing answers. The output contains no key and no credential. The \
command changes nothing, and does not create the user's key. Run it as the user and in the container of the process that you check.

Exits with 0 if no check found a problem, and with 1 otherwise.

Examples:
  millstream doctor
  millstream doctor --dispatcher head:5050 --key read.key
  millstream doctor --json
      Prints the findings for programs.";

/// The text below the flags of `millstream shutdown`.
pub(crate) const TOP: &str = "\
The first line says in one sentence whether training waits for data, and why. Below it are four tables: trainers with their share of \
waiting, epochs, workers, and tasks with their bottlenecks. Tab and the digits 1 to 4 choose a table, the arrow keys scroll, and q ends.

Examples:
  millstream top
  millstream top --dispatcher head:5050
  millstream top --once 100
      Prints the first table once, for a log or a pipe.";

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

/// The text below the flags of `millstream config`.
pub(crate) const CONFIG: &str = "\
Every setting has one name. The setting `liveness-s` is the flag --liveness-s, the variable MILLSTREAM_LIVENESS_S, and the key `liveness-s` \
of a settings file. A flag wins over a variable, a variable over the file, and the file over the default. A flag also replaces a setting of \
the file that excludes the flag.

The settings file is the one that --config or MILLSTREAM_CONFIG names; no other file is read. A section applies to the command of its name, \
and keys before the first section to all commands that have the flag:

  log-format = \"json\"

  [dispatcher]
  bind = \"0.0.0.0:5050\"
  work-dir = \"/var/lib/millstream\"

  [worker]
  dispatcher = \"head:5050\"
  allow-path = [\"/data\", \"s3://bucket/train/\"]

The name `dispatcher` is a section, so the key `dispatcher` stands in the sections of other commands only. A key or section without a flag \
or command is an error. Variables and the file set every command except completions, config, key and man. A \
variable separates several values by commas. The variable MILLSTREAM_KEY is an exception, because it may contain the key itself; the \
command never shows it, nor the users, passwords and queries of URLs.

Examples:
  millstream config show --origin
      Prints what the variables and the file set, for all commands.
  millstream config show --origin --config service.toml dispatcher --liveness-s 20
      Prints all settings of this dispatcher, without starting it.";

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
