// Package rundiff compares results with each other: the same question asked on another machine, or on another day.
//
// It is opinionated about what can be compared. Within a run, the two costs of a block were taken next to each other
// and share the state of the host; between two runs nothing is shared. So the comparison is of ratios: how candidate
// stands to baseline here, against how it stands there. The baseline carries most of what the hosts differ by, and what
// is left is the change of the ratio. Absolute figures are shown beside it, with a warning where the hosts differ, and
// get no verdict.
//
// The pipeline of Compare, for the first result against each of the others:
//
//  1. What differs (differ.go): tare, plan, work, host, kernel, settings, mounts, side by side. Facts that always
//     change,
//     such as free memory or a private directory's name, are left out.
//  2. Scope (scope.go): two machines, two days, two boots or two runs; part of every sentence. What decides are the
//     facts
//     of the host, and whether its boot time is the same.
//  3. Match (pair.go): workloads by label, targets by name, metrics by name. A workload whose kind or parameters
//     differ, a
//     target with another baseline, and, with the same seed, other checks of the work: WITHHELD.
//  4. Change (change.go): the difference of the two centres on the log scale, unpaired. Its interval is found from
//     those of
//     the two sides by the method of variance estimates recovery (MOVER): with l, u the distances of a side's centre
//     from
//     its ends, low = d - sqrt(l2*l2 + u1*u1) and high = d + sqrt(u2*u2 + l1*l1). It keeps the level and the asymmetry
//     of
//     intervals that were made by any sound method (Zou and Donner, Statistics in Medicine 27:1693-1702, 2008; for
//     ratios, Donner and Zou, Statistical Methods in Medical Research 21:347-359, 2012).
//  5. Decide: as in package compare, with a margin that counts the noise of both null controls. DIFFERENT also has to
//     pass
//     Holm's procedure over the primary cells, or the rate of false discoveries over the secondary ones, as within a
//     run
//     (stats.Adjust); its p value is that of Welch's t on standard errors recovered from the intervals. Simulations in
//     this package hold level and coverage.
//  6. Groups (groups.go). The groups of a cell that was compared, each as a cell of its own; a family for each cell, by
//     the rate of false discoveries.
//
// An interval of one boot knows nothing of what a boot decides: where a side has one session only, a warning says that
// a change may be that of the boot and not of what was changed on purpose.
package rundiff
