package report

// damaged is the code of verdict's finding that a report does not cover the whole bundle, or that the bundle was
// changed. Forms that show no findings say it in their own way.
const damaged = "damaged"

// damage returns the finding's text; "" for a sound bundle.
func (m *Model) damage() string {
	for i := range m.Findings {
		if f := &m.Findings[i]; f.Code == damaged {
			return clean(f.Text)
		}
	}
	return ""
}
