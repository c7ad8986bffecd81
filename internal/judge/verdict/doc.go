// Package verdict turns the trials of a run into verdicts. It is pure: the same plan, environments and trials always
// give the same Result, whether asked by the scheduler at a look, by a report a year later, or by `tare verify`.
//
// It is opinionated in what it refuses: no figure is compared whose work, clock or way of access differs, nothing is
// dropped as an outlier, and a large table does not get to claim more than a small one. Doubts are values on the cell
// they belong to, and each names its remedy.
//
// The pipeline of Evaluate, one file for each step:
//
//  1. Index (index.go). Trials are grouped by workload, target and slot. The warm-up (block 0) is left out. A block
//     that a rule declared beforehand has discarded is left out for every target at once, kept and counted. Trials that
//     failed are kept apart with their reason. If a block was taken twice (a resumed run), the later trial counts.
//  2. Clock (clock.go). Every trial was timed by the environment and by the controller. How far a clock is off is the
//     Hodges-Lehmann centre of agent/controller - 1 over the target's trials, with its interval, and over those of a
//     cell where they contradict the target's. Delays of the messages that carry the controller's stamps are noise in
//     it: they widen the interval and are not subtracted. Where the farther end of the interval exceeds 0.2 % the cell
//     carries a warning and its own interval grows by that much on both sides. Where the centre exceeds 1 % and the
//     interval excludes 0, every figure that derives from the environment's clock is restated, trial by trial, on the
//     controller's; a figure that cannot be restated because a foreign tool printed it is WITHHELD. Targets that share
//     the controller's kernel share its clock, and nothing is read into a disagreement there.
//  3. Pair (cell.go). d = ln(candidate cost / baseline cost) for each block that both have. A block in which one side
//     alone hit its deadline is censored: d is infinite, and ranks beyond all others. A block that only one has for
//     another reason is counted and reported. A cell without any pair is FAILED when something failed, and INCONCLUSIVE
//     when it was not reached.
//  4. Withholding (withhold.go). Checks that differ between the two sides, or within one, mean unequal work: WITHHELD,
//     no ratio. Direct I/O on one side only, or served from memory, and load limited by its client: WITHHELD. Trials of
//     different work, one of them far shorter than planned and than the other (lengths.go): WITHHELD too. So is a cell
//     of which one side has no figure in more than one block of ten (lost.go).
//  5. Null control (cell.go). d of the baseline's hidden slot against the baseline. Its spread is the farther end, seen
//     from "no cost", of its interval of one standard error: what two identical environments appear to differ by on
//     this host. It grows with noise and with bias of the instrument, and shrinks with blocks if it is only noise. The
//     margin delta is the larger of the plan's (that for tails, for a tail latency) and twice this spread.
//  6. Decide (stats.Decide). DIFFERENT: the interval lies wholly outside [1/(1+delta), 1+delta]. EQUIVALENT: it lies
//     wholly inside the plan's margin. MEASURED: its half-width is at most the plan's precision. Else INCONCLUSIVE,
//     with the number of blocks that would settle it. EQUIVALENT deliberately uses the plan's margin and not delta: on
//     a noisy host a true 5 % would else be declared equivalent, within a margin that grew because of the noise, in
//     every fifth case at the first look (simulated in package stats), and the run would stop there.
//  7. Multiplicity (family.go). Holm's procedure over the primary cells of the whole plan, cells not yet measured
//     included, on the minimal-effect p value ("the cost is within delta") at the level of the look. A DIFFERENT that
//     Holm does not confirm is INCONCLUSIVE while the plan has blocks left, because they can confirm it, and at the
//     last look MEASURED when its interval is precise enough, else INCONCLUSIVE; a warning tells that the family, not
//     the cell, stands in the way. Holm's p falls only when other cells' evidence comes in, so no later cell takes back
//     an earlier DIFFERENT. The secondary cells are for exploration and may be hundreds: a DIFFERENT stands among them
//     when Benjamini-Hochberg's q is at most the level.
//  8. Groups (groups.go). Where trials tell parts of their work apart, such as statements with one fingerprint, the
//     median times of each part are paired, with a null control of their own, and judged as secondary cells are, in a
//     family for each candidate and workload. A group whose check differs between two trials of the same amount of work
//     means unequal work for the whole cell. How much a figure varies and how far out its slow end lies is compared
//     too, beside where it lies (spread.go, tail.go): all spreads and tails of a run are a family of their own.
//  9. Why (why.go). Where trials have accounts of their time, the ratio of a primary cell is taken apart: the parts of
//     the time of a unit of work, with an interval for each over the same blocks. Cells of a target with a neighbour
//     are those of any target; Neighbours (neighbours.go) sets them out as a matrix, with what the neighbours did
//     themselves.
//  10. Doubts (doubts.go). Drift of the costs and of the ratio, two modes, few blocks, discarded blocks with the ratio
//     that they would have given, emulated CPU.
//  11. Summaries (family.go). The geometric mean of the primary ratios of each family of workloads and target, with an
//     interval over the blocks that all of them have.
//  12. Findings (findings.go). What a reader must know of the whole run, as sentences with a remedy.
//
// With one session the level is that of a look, so that looking several times keeps the plan's simultaneous level. A
// run of several sessions does not look before its end: its level is the plan's, its units are the sessions.
package verdict
