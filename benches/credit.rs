//! Benchmarks of the credit account next to the yardsticks: the cost for one pack, and the cost of one round
//! of grants over many tasks.

mod yardstick;

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use millstream::client::MaxOutstanding;
use millstream::client::credit::{Bounds, Standing, distribute};
use millstream::dataplane::TaskId;
use millstream::dataplane::proto::credit::{Holder, Issuer};

/// The bytes of a pack of small elements. For each pack, a reader sends at most one grant in one message.
const PACK_BYTES: usize = 256 << 10;

fn account(c: &mut Criterion) {
    let mut group = c.benchmark_group("credit");
    group
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .sample_size(20);
    group.bench_function("grant, spend and receive", |b| {
        let (mut issuer, mut holder) = (Issuer::default(), Holder::default());
        b.iter(|| {
            holder.raise_to(issuer.grant(black_box(8)));
            let elements = holder.available();
            holder.spend(elements);
            issuer.receive(elements).expect("as granted");
        });
        black_box((issuer, holder));
    });
    for tasks in [1, 16, 256] {
        let standing = |task| Standing {
            task: TaskId(task),
            outstanding: task % 5,
            waiting: task % 3,
            kept: 0,
            element_bytes: 4096,
            is_local: false,
            is_eligible: task % 7 != 1,
            granted_at: task,
            is_over: false,
        };
        let standings: Vec<Standing> = (0..tasks).map(standing).collect();
        let bounds = Bounds {
            max_outstanding: MaxOutstanding::Elements(8 * tasks),
            auto_bytes: 0,
            shared: None,
            max_outstanding_bytes: u64::MAX,
        };
        group.bench_with_input(
            BenchmarkId::new("distribute over tasks", tasks),
            &standings,
            |b, standings| {
                b.iter(|| black_box(distribute(&bounds, standings)));
            },
        );
    }
    yardstick::RawQuic::connect().stand_beside(&mut group, "one pack", PACK_BYTES);
    group.finish();
}

criterion_group!(benches, account);
criterion_main!(benches);
