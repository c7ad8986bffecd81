// Package stats holds the estimators, intervals, tests and the decision rule of tare. Pure functions of numbers.
//
// It is opinionated: what is compared is d = ln(candidate cost / baseline cost), one number per block, because the two
// costs of a block were taken next to each other and share the state of the host. The only assumption about d is that
// under "no difference" it is symmetric, which the random order within the block makes true. So the centre is the
// Hodges-Lehmann estimate and the interval inverts the exact Wilcoxon signed-rank test; a percentile bootstrap, which
// covers 81 to 90 % instead of 95 % at ten units, is not offered. Where the environments were opened several times the
// unit is the session, because blocks within one boot are not independent of each other in what the boot decided.
//
// No function panics or returns a NaN that its comment does not announce. "Not finite" below means NaN or an infinity.
package stats
