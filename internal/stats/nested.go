package stats

import "math"

// Nested are the sums of squares of values that lie in sessions, on the log scale: what differs from block to block
// within a session, and from session to session. Those of several hosts can be added up.
type Nested struct {
	Block   float64 `json:"block_ss"` // sum of squares within sessions
	BlockDF float64 `json:"block_df"`
	Boot    float64 `json:"boot_ss"` // sum of squares between the means of sessions, each weighted by its values
	BootDF  float64 `json:"boot_df"`
	// Weight is the sum of N - sum(n^2)/N over hosts, n being the values of a session and N those of a host. Divided
	// by BootDF it is the number of values in a session, or what stands for it where sessions differ in that.
	Weight float64 `json:"boot_weight"`
}

// Nest takes the values of one host apart. Values that are not finite are left out.
func Nest(sessions [][]float64) Nested {
	var n Nested
	var means, counts []float64
	var total, squares, grand float64
	for _, s := range sessions {
		var count, m float64
		for _, v := range s {
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				count++
				m += (v - m) / count
			}
		}
		if count == 0 {
			continue
		}
		for _, v := range s {
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				n.Block += (v - m) * (v - m)
			}
		}
		n.BlockDF += count - 1
		means, counts = append(means, m), append(counts, count)
		total += count
		squares += count * count
		grand += (m - grand) * count / total
	}
	if len(means) < 2 {
		return n
	}
	for i, m := range means {
		n.Boot += counts[i] * (m - grand) * (m - grand)
	}
	n.BootDF = float64(len(means) - 1)
	n.Weight = total - squares/total
	return n
}

// Plus adds what another host says.
func (n Nested) Plus(o Nested) Nested {
	return Nested{n.Block + o.Block, n.BlockDF + o.BlockDF, n.Boot + o.Boot, n.BootDF + o.BootDF, n.Weight + o.Weight}
}

// SD returns the standard deviation of a block within its session, and of what sessions differ by beyond that, by the
// method of moments. Each is 0 where nothing is known of it, or where it is that small.
func (n Nested) SD() (block, boot float64) {
	var within float64
	if n.BlockDF > 0 {
		within = n.Block / n.BlockDF
	}
	if n.BootDF > 0 && n.Weight > 0 {
		boot = math.Sqrt(max(0, (n.Boot/n.BootDF-within)/(n.Weight/n.BootDF)))
	}
	return math.Sqrt(within), boot
}
