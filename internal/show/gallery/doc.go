// Package gallery writes a static site of results: an index with search and filters, a light page for each result, and
// for each piece of work a ranking and its course over time. It opens from a disk as from any host of files.
//
// It is opinionated about strangers. A bundle is verified before anything of it is read, unpacked within bounds of
// bytes and time, and left out with its reason if it is not sound; the others do not suffer. Every text is escaped, no
// page asks for anything outside the site, and names are replaced by pseudonyms unless the caller says otherwise.
// Downloads are packed anew from the verified files.
//
// It is opinionated about change, too. gallery.json has the sources of each page, so that a build makes only new pages,
// writes a file only if its content changes, and removes files that nobody refers to. Results stay until the caller
// says that the named ones are all.
//
// And about comparing: ratios of different machines stand in one list, each against its own baseline; a place is lost
// only to a result that is shown to cost less.
package gallery
