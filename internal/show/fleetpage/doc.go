// Package fleetpage writes the pages of a fleet: one of all hosts, and behind it one for each.
//
// It is opinionated about size. A page is text that is written once and needs no script: a chart of 500 hosts is two
// lines of a drawing, a heat map is a table of figures, and a browser opens both at once. It is opinionated about
// colour, too: whatever a colour says, a figure or a sign beside it says as well.
//
// Names and facts are those of strangers' machines. Every text is escaped, and the pages' policy lets nothing run and
// nothing load.
package fleetpage
