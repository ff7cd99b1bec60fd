//! The text that `--help` shows below the flags of each command: examples, output, and next steps.
//!
//! Paragraphs are single lines: the terminal's width breaks them.

/// The text for `millstream dispatcher`.
pub(crate) const DISPATCHER: &str = "\
Prints `dispatcher listening on ADDRESS` once it serves. Ctrl-C or SIGTERM ends it with a goodbye.

With --work-dir everything that it answers is on disk first. However it ends, start it again at the same address and with \
the same directory: readers go on reading meanwhile, workers and readers find it by themselves, and no split is lost or \
read twice. If it stays away or is cut off for longer than 30 s, workers give their tasks up, as if they had died. One dispatcher at a \
time uses a directory. While its disk is full it refuses what it cannot store, and goes on when there is room; it ends with an error if its disk fails, or if its \
store is removed or replaced. Without --work-dir, workers and readers of a dispatcher that was \
restarted are told so: workers begin again, and readers fail.

What nobody uses goes after its lifetime, from the work directory too. A finished iteration that somebody joins before ends at \
once; afterwards it starts again, and a job's name is free again.

Examples:
  millstream dispatcher
  millstream dispatcher --work-dir /var/lib/millstream
  millstream dispatcher --bind 0.0.0.0:5050 --key dispatcher.key
  millstream dispatcher --worker-addresses node1:5051,node2:%port%,node2:%port%
      Three workers, which static sharding policies divide a dataset among.
  millstream dispatcher --job-gc-timeout-s 3600 --gc-dynamic-sharding-jobs
      Iterations are given up when nobody read them for an hour.";

/// The text for `millstream worker`.
pub(crate) const WORKER: &str = "\
Prints `worker serving on ADDRESS for dispatcher HOST:PORT` once it is registered.

SIGTERM has it leave in good order: it takes no more work, gives back what it has not started, brings what it has begun to \
its readers, and ends. Under sharding `dynamic` nothing is lost and nothing read twice; under the other policies its tasks \
end, and a share starts over with the next worker of its number. A reader that pauses is waited for until \
--drain-deadline-s. A second signal ends it at once, as Ctrl-C does: with a goodbye, after which others read what it had \
begun, or the reader is told what was lost. A killed worker is missed within about a second, because its system says that its port is closed. If nobody can say so, \
the dispatcher waits for three times its --liveness-s.

Examples:
  millstream worker
  millstream worker --threads 4 --tag gpu --tag rack3
  millstream worker --dispatcher head:5050 --key worker.key --bind 0.0.0.0:0
  millstream worker --isolation strict --allow-path /data";

/// The text for `millstream read`.
pub(crate) const READ: &str = "\
Prints a line for each epoch: elements, bytes and rates, the share of the time that was spent waiting, what is the \
bottleneck (trainer, workers, network or dispatcher; none where nothing was read), and a digest. The digest depends on the rows alone, not on their order, the \
batches or who computed them. Standard error says by which transport the workers were read, and why not by a better one; it also \
names workers that are given up, and splits that were lost with them.

Ends with 0 if every epoch was read to its end with nothing lost, or --on-lost is `warn` or `ignore`; with 1 if splits were lost, after \
everything else of that epoch was read, or if reading failed or was interrupted; with 2 if its flags are wrong.

Under the sharding policies `file`, `data`, `file_or_data` and `hint` each worker of the dispatcher's fixed list has its share \
from the start. The reading waits for those that have not come, and fails if one goes and does not come back.

With --trainer-id each worker keeps a window of its latest elements (its --cross-trainer-cache-bytes), which slides forward with \
the fastest trainer. A trainer that is slower, or comes later, goes on at the oldest element kept.

Examples:
  millstream read --files 'examples/data/*.tar' --epochs 3
  millstream read --range 1000000 --batch 0
  millstream read --range 1000000 --sharding data
      Each worker of a dispatcher with --worker-addresses yields its share.
  millstream read --range 1000000 --job-name shared
      Run twice at a time, each gets a part.
  millstream read --range 1000000 --job-name pair --num-consumers 2 --steps 100 --consumer 0
      Run at the same time with --consumer 1, neither gets ahead of the other.
  millstream read --range 1000000 --job-name search --steps 100 --trainer-id a
      Run again with --trainer-id b it gets what the workers have kept of the same.";

/// The text for `millstream explain`.
pub(crate) const EXPLAIN: &str = "\
Prints the operations of a dataset, each above what it reads; the bodies of functions and all inputs but the last of several stand to \
the right. With --run-s, beside each:
  ELEMENTS    handed on, and how many of them PER SECOND
  BUSY        work, added up over its threads; estimated from samples
  WAITED      how long its caller waited for its threads
  LOAD        the share of the time of its THREADS that it was busy; the
              bottleneck is marked with an arrow, unless it is the consumer
  READY       how full its buffer was on average, and how many elements it holds
The columns are named so in lower case, and the last line on standard error names the bottleneck.

Examples:
  millstream explain --files 'examples/data/*.tar'
  millstream explain --files 'examples/data/*.tar' --run-s 5
  millstream explain --definition dataset.cbor --dot | dot -Tsvg > dataset.svg
  millstream explain --dataset 1000 --dispatcher 127.0.0.1:5050
      A dataset that is registered with a service; status prints their ids.";

/// The text for `millstream status`.
pub(crate) const STATUS: &str = "\
Prints a table for each kind of thing there is, and how many workers would keep the readers busy:
  WORKER     STATE: alive or draining (about to leave), and when it was last
             heard of, or dead, and why
  DATASET    ELEMENTS: how many it has, where that is known
  JOB        a reading of a dataset; SHARDING: how it is dealt out to workers
  ITERATION  one PASS of a job, counted from 0. Under DYNAMIC its splits are
             DONE (received whole by a reader), LEASED (at a worker),
             REMAINING (not dealt out) or LOST (begun by a worker that died)
  TASK       a worker's share of an iteration, its splits LEASED, its elements
             so far and a second; ELEMENT: what it takes for one, its waits
             for readers apart; BOTTLENECK: the stage that holds it up, or
             `consumer`: its readers
  CLIENT     a reader of an iteration; ELEMENT: what its user takes for one, its
             waits for workers apart
  LOST IN    the lost splits of an iteration: COUNT from FIRST SPLIT on

Examples:
  millstream status
  millstream status --json
      The same for programs, with ids, counts and rates; times in ns and ms.
  millstream status --metrics
      Gauges for Prometheus, for example by way of the node exporter's text
      files. To scale workers by: millstream_workers_wanted.
  millstream status --dispatcher head:5050 --key read.key";

/// The text for `millstream shutdown`.
pub(crate) const SHUTDOWN: &str = "\
Tells the dispatcher, its workers and everybody who reads that the service ends, and returns when the dispatcher is gone. \
Readers get an error that says who has ended it, or the end of their data if they have all of it. Workers and the dispatcher \
end with 0, within the --shutdown-quiet-period-s of each: a process that hangs is not waited for longer. Needs the cluster key or a \
`submit` key.

A dispatcher with --work-dir keeps its records: started again, it goes on with its datasets, jobs and iterations. What readers \
and workers held when they went is lost to those, as if they had died.

Examples:
  millstream shutdown
  millstream shutdown --dispatcher head:5050 --key submit.key";

/// The text for `millstream key`.
pub(crate) const KEY: &str = "\
Prints a key to standard output, or writes it to a file of mode 0600 with --out. The cluster key may do everything, so give each machine only what it needs: the key of \
its role, in a file that its user alone can read, named by --key or MILLSTREAM_KEY there.

Examples:
  millstream key --generate --out cluster.key
      A new cluster key. Then, from it, for the machines that compute, for
      trainers that register datasets, and for trainers that only read:
  millstream key --key cluster.key --role worker --out worker.key
  millstream key --key cluster.key --role submit --out submit.key
  millstream key --key cluster.key --role read --out read.key

Replace a key while the service runs:
  A key file may have several keys, one a line. A process acts with the first,
  and accepts the holders of all. Change the files of all processes three times,
  and after each time restart the dispatcher (with --work-dir), then the workers
  (SIGTERM drains them), then trainers when they are between two runs:
  1. The old key, then the public half of the new one:
       millstream key --key new.key --public >> worker.key
  2. The new key, then the public half of the old one.
  3. The new key alone. Holders of the old one are refused from then on.

Refuse a certificate or a key at once:
  Name a file with --revoked FILE to the dispatcher, the workers and the trainers
  (MILLSTREAM_REVOKED). They read it again within a second when it changes. A line is
    sha256:DIGITS                 a certificate, as the audit log has it;
    read millstream-public-1:...  the holders of a key in one role;
    millstream-public-1:...       the holders of a key in every role,
  where `millstream key --key leaked.key --public` prints the key's line.";

/// The text for `millstream demo`.
pub(crate) const DEMO: &str = "\
Starts a dispatcher and workers as processes of its own, with a key of their own, on free ports of this machine, and ends \
them. Prints a line for each epoch and, at the end, that every picture was seen exactly once in each of them; it fails, \
naming what is missing or came too often, if that is not so. The photographs come with the command; --data names others.

Examples:
  millstream demo
  millstream demo --workers 4 --epochs 10
  millstream demo --data /data/photos --dump-keys keys.txt";

/// The text for `millstream completions`.
pub(crate) const COMPLETIONS: &str = "\
Examples:
  millstream completions bash > ~/.local/share/bash-completion/completions/millstream
  millstream completions zsh > ~/.zfunc/_millstream
  millstream completions fish > ~/.config/fish/completions/millstream.fish";

/// The text for `millstream man`.
pub(crate) const MAN: &str = "\
Examples:
  millstream man --out ~/.local/share/man/man1
      Then `man millstream` and, for example, `man millstream-worker` show them.";
