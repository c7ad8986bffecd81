package stats

// Contains tells whether v lies in the closed interval.
func (e Estimate) Contains(v float64) bool { return e.Low <= v && v <= e.High }
