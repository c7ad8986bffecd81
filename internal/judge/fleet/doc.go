// Package fleet judges what many hosts say that ran one plan, each by itself: what the work costs across them, what it
// would cost on a further host of the kind, which hosts lie apart, and in what these differ.
//
// It is opinionated about what a fleet can claim. The unit is the host: its blocks are never mixed with another's, and
// a thousand blocks on two hosts are two units. A host that lies apart is named and counts all the same. What is
// missing is part of the sentence. A fact in which hosts differ is offered as an explanation and never called a cause.
//
// The pipeline:
//
//  1. Summarize (host.go). Of each host's bundle, what its primary and secondary cells say: the ratio of a target to
//     its baseline, and what a unit of work costs in each target, on the log scale, each with its standard error. Facts
//     that may explain a difference. The verdicts of the host alone.
//  2. Admit (admit.go). Bundles of another plan or another build, damaged ones, and those of a machine that has one
//     already are refused, each by name and with a reason; none stops the others.
//  3. Cells (judge.go). The hosts' values of a cell are pooled by the random-effects model (stats.Pool): the mean of
//     the kind with its interval, and the interval for a further host. Hosts whose work was not the same as that of
//     most have no value in the cell, and are counted.
//  4. Decide (judge.go). On a ratio across hosts as on one of a host: DIFFERENT outside the margin, EQUIVALENT inside
//     the plan's, MEASURED when precise, else INCONCLUSIVE. The margin is the middle one of the hosts'. DIFFERENT has
//     to pass Holm's procedure over the primary cells, or the rate of false discoveries over the secondary ones.
//  5. Apart (apart.go). Each host is held against the others in each primary cell (stats.SetApart), beyond the plan's
//     margin. Over all hosts and cells, at most one in twenty of the claims is false (Benjamini and Hochberg).
//  6. Explain (explain.go). The facts of a host that lies apart, ranked by how seldom the others have them.
//
// The simulations of this package hold size, coverage and power, and write their tables into simulated.md.
package fleet
