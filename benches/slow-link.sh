#!/usr/bin/env bash
# Compares --compression none, lz4 and auto over a slow link and over loopback. The link consists of virtual interfaces between two
# network namespaces, which a token bucket limits in both directions. The script needs root, `ip`, `tc` with tbf, and python3.
#
#   benches/slow-link.sh PATH/TO/bench-transfer [RATE [ROUNDS [SECONDS [ELEMENT_BYTES]]]]
#
# RATE has the format of `tc`; the default is 1gbit. Rounds are interleaved. The script prints medians, their ratios to none, and spreads.
set -euo pipefail

program=${1:?usage: slow-link.sh PATH/TO/bench-transfer [RATE [ROUNDS [SECONDS [ELEMENT_BYTES]]]]}
rate=${2:-1gbit} rounds=${3:-5} seconds=${4:-5} element_bytes=${5:-1M}
near=slow-link-near-$$ far=slow-link-far-$$
folder=$(mktemp -d)
server=

finish() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    ip netns del "$near" 2>/dev/null || true
    ip netns del "$far" 2>/dev/null || true
    rm -rf "$folder"
}
trap finish EXIT

end() { # arguments: namespace, interface, address
    ip -n "$1" addr add "$3/30" dev "$2"
    ip -n "$1" link set lo up
    ip -n "$1" link set "$2" up
    # The bucket holds the traffic of 2 ms at 1 Gbit/s. The queue holds the traffic of 20 ms.
    tc -n "$1" qdisc add dev "$2" root tbf rate "$rate" burst 256kb latency 20ms
}
ip netns add "$near"
ip netns add "$far"
ip link add sl0 netns "$near" type veth peer name sl1 netns "$far"
end "$near" sl0 10.99.0.1
end "$far" sl1 10.99.0.2

MILLSTREAM_KEY=millstream-key-1:$(head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n')
export MILLSTREAM_KEY

# Readers see the boot id of another machine, and therefore share no memory with the workers.
tr a-f0-9 0-9a-f </proc/sys/kernel/random/boot_id >"$folder/boot_id"
elsewhere() {
    unshare --mount sh -c 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"' "$folder/boot_id" "$@"
}

measure() { # arguments: over, namespace of the reader, address, payload, compression
    ip netns exec "$near" "$program" serve --bind "$3" --element-bytes "$element_bytes" --payload "$4" \
        --compression "$5" >"$folder/serve" 2>&1 &
    server=$!
    for _ in $(seq 600); do
        ! grep -qs '^serving' "$folder/serve" || break
        kill -0 "$server" 2>/dev/null || { cat "$folder/serve" >&2; exit 1; }
        sleep 0.05
    done
    elsewhere ip netns exec "$2" "$program" pull "$3" --element-bytes "$element_bytes" --seconds "$seconds" --json |
        sed "s/^{/{\"over\":\"$1\",\"payload\":\"$4\",\"compression\":\"$5\",/" >>"$folder/records"
    kill "$server"
    wait "$server" || true
    server=
}

for _ in $(seq "$rounds"); do
    for payload in random text-like zeros; do
        for compression in none lz4 auto; do measure "$rate" "$far" 10.99.0.1:5060 "$payload" "$compression"; done
        for compression in none lz4 auto; do measure loopback "$near" 127.0.0.1:5060 "$payload" "$compression"; done
    done
done

python3 - "$folder/records" <<'PYTHON'
import json, statistics, sys
groups = {}
for line in open(sys.argv[1]):
    record = json.loads(line)
    group = groups.setdefault((record["over"], record["payload"]), {})
    group.setdefault(record["compression"], []).append(record["bytes_per_s"] / 1e6)
print(f"{'over':<10} {'payload':<10} {'compression':<12} {'MB/s':>8}   ratio   spread")
for (over, payload), group in sorted(groups.items()):
    plain = statistics.median(group["none"])
    for compression, rates in group.items():
        median = statistics.median(rates)
        spread = f"{min(rates):.1f} to {max(rates):.1f}"
        print(f"{over:<10} {payload:<10} {compression:<12} {median:>8.1f}   {median / plain:5.2f}   {spread}")
PYTHON
