// Package failif is the language of --fail-if: conditions on figures that stop a pipeline.
//
//	ratio(vm:virtiofs, fs.smallfiles) > 2.0
//	slower(box, cpu.prime, 10%)
//	value(host, fs.seqwrite, mib_per_s) < 200 MiB/s
//	change(vm, cpu.prime) > 1.05 and not slower(box, cpu.prime, 5%)
//
//	condition = and { ("or" | "||") and }
//	and       = not { ("and" | "&&") not }
//	not       = ("not" | "!") not | "(" condition ")" | predicate | figure op number
//	figure    = ("ratio" | "value" | "change") "(" target "," workload [ "," metric ] ")"
//	predicate = ("slower" | "faster") "(" target "," workload "," share [ "," metric ] ")"
//	op        = ">" | ">=" | "<" | "<="
//
// Names are written bare or in quotes; a name with a comma or a parenthesis needs them. A workload is named by its
// label, or by its kind when only one is of that kind. Without a metric the primary one is meant. ratio is a
// candidate's cost against the baseline; value is a figure in its own unit, its limit written as reports show such
// figures (5 k ev/s,
// 1.94 M/s, 200 MiB/s); change is what became of a ratio from one result to another.
// slower(t, w, 10%) is "costs more than 1.10 times", faster(t, w, 10%) "costs less than 1/1.10 times": of the change
// where results are compared, else of the ratio.
//
// It is opinionated about doubt. A condition has three answers: it holds, it does not, or it cannot be told, and it
// holds only when the whole interval is on its side of the limit: "> 2.0" needs a low end above 2.0. A figure that was
// withheld or failed tells nothing. Words that join conditions follow Kleene's logic of three values. The intervals are
// those of the report, which keep their level over all looks of a run; conditions are not corrected for how many there
// are, because each was asked beforehand.
package failif
