// Package schedule carries out a plan.
//
//  1. Open every environment of the plan, one after the other. One that does not open is recorded with its evidence and
//     its cells fail; the rest of the run goes on.
//  2. Calibrate every cell: find the work that takes the trial length there.
//  3. Run trial 0 of every cell, the warm-up, take its pace into account, give targets that cost about the same the
//     same
//     work, and freeze it in the plan.
//  4. Run rounds. In a round every unsettled workload gets one block: one trial of each of its targets and one of the
//     null
//     control, in an order drawn from the seed. Before each trial QuietHost waits, bounded, for a quiet machine. Each
//     trial is on disk before the next starts.
//     After the first round it is known what it costs to begin a session: then the run decides how many there are, in
//     a plan that leaves that to it (sessions.go).
//  5. After the block counts that the plan names, look: workloads whose cells are all settled get no more blocks.
//  6. Stop when all are settled, the last look is done, the budget is spent or the context is done; release everything.
//
// The package decides when to measure and when to stop. What the figures mean is package verdict's business, and the
// same function that a look calls is called again by every report.
package schedule
