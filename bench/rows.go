package main

import "slices"

// agreement is the name that stands for all rows whose figures are to agree with the peer's.
const agreement = "agreement"

// rows is the table, in the order it is printed. The goals are those of the project's plan.
func rows() []row {
	all := []row{
		{
			name: "fio-buffered", what: "4 KiB random reads of a cached 64 MiB file, buffered, 1 thread",
			peer:     "fio psync",
			programs: []string{"fio"}, open: openFio(false),
			figures: []figure{
				{name: "rate", unit: "ops/s", goal: 1.10},
				// fio's rate contains its own bookkeeping, so it is the time fio sees a read take that must agree.
				{name: "time of a read", unit: "s", agrees: true, why: whyShort},
			},
		},
		preadLoopRow(), preadInFioRow(),
		{
			name: "fio-direct", what: "4 KiB random reads of a 64 MiB file, O_DIRECT, 1 thread", peer: "fio psync",
			programs: []string{"fio"}, open: openFio(true),
			figures: []figure{{unit: "ops/s", goal: 0.98, agrees: true}},
		},
		uringRow(),
		sysbenchRow("sysbench-cpu-1", 1, 10000),
		sysbenchRow("sysbench-cpu-2", 2, 10000),
		sysbenchRow("sysbench-cpu-20000", 1, 20000),
		mbwOwnRow("memcpy"), mbwOwnRow("dumb"), mbwOwnRow("mcblock"),
		mbwPackagedRow("memcpy"), mbwPackagedRow("dumb"), mbwPackagedRow("mcblock"),
		matrixRow("4k"), matrixRow("64k"), matrixRow("1m"),
		{
			name: "iozone-matrix", what: "time of the whole matrix up to 64 MiB", peer: "iozone -a -g 64M",
			programs: []string{"iozone"}, open: openMatrixWhole,
			figures: []figure{{unit: "s", goal: 1, atMost: true}},
		},
		{
			name: "hyperfine", what: "time of /bin/true without a shell, over at least 200 runs in a row",
			peer:     "hyperfine -N",
			programs: []string{"hyperfine"}, open: openHyperfine,
			figures: []figure{
				{name: "mean", unit: "s", goal: 1, atMost: true},
				{name: "standard deviation", unit: "s", goal: 1, atMost: true},
			},
		},
		{
			name: "handshake", what: "agent into a running container and to its handshake", open: openHandshake,
			figures: []figure{
				{name: "agent already in it", unit: "s", goal: 0.3, atMost: true},
				{name: "agent put into it first", unit: "s", goal: 0.3, atMost: true},
			},
		},
		{
			name: "vm-boot", what: "micro-VM under TCG, from nothing to handshake", open: openBoot,
			figures: []figure{
				{name: "q35", unit: "s", goal: 4, atMost: true},
				{name: "microvm", unit: "s", goal: 4, atMost: true},
			},
		},
		{
			name: "agent-size", what: "the agent's executable, the largest of all platforms", open: openSize,
			figures: []figure{
				{name: "stripped", unit: "MB", goal: 6.7, atMost: true},
				{name: "gzipped", unit: "MB", goal: 2.8, atMost: true},
			},
		},
		{
			name: "agent-idle", what: "an agent that has served a trial, while another one's trial runs",
			open: openIdle,
			figures: []figure{
				{name: "resident memory", unit: "MB", goal: 24, atMost: true},
				{name: "CPU", unit: "%", goal: 0.1, atMost: true},
			},
		},
		accountRow(),
	}
	after := slices.IndexFunc(all, func(r row) bool { return r.name == "hyperfine" }) + 1
	all = slices.Insert(all, after, abRows()...)
	after = slices.IndexFunc(all, func(r row) bool { return r.name == "iozone-matrix" }) + 1
	all = slices.Insert(all, after, slices.Concat(developerRows(), nbdRows(), networkRows(), webRows(), loadRows(),
		siteRows(siteLength), oltpRows(), inspectRows(), replayRows(), checksumRows(), wireRows(),
		[]row{diskRow(), bzip2Row()})...)
	first := slices.IndexFunc(all, func(r row) bool { return r.name == "fio-uring" }) + 1
	return slices.Insert(all, first, gridRows()...)
}
