package matrix

// Bounds of iozone's automatic mode, in bytes.
const (
	AutoMinSize = 64 << 10
	AutoMaxSize = 512 << 20
	AutoMinRec  = 4 << 10
	AutoMaxRec  = 16 << 20
)

// Above crossoverSize, iozone -a skips records smaller than crossoverRec, because they would take too long.
const (
	crossoverSize = 16 << 20
	crossoverRec  = 64 << 10
)

// Row is a row of the matrix: a file and its records, in bytes.
type Row struct{ Size, Rec int64 }

// Rows lists the rows of a matrix: file sizes from minSize to maxSize and, in each, record sizes from minRec to maxRec,
// both doubling. A record is never larger than its file. With crossover, files above 16 MiB have no records below
// 64 KiB, which is what iozone -a does unless it is told a record size or -z. Sizes below 1 give no rows.
func Rows(minSize, maxSize, minRec, maxRec int64, crossover bool) []Row {
	var rows []Row
	if minSize < 1 || minRec < 1 {
		return nil
	}
	for size := minSize; size <= maxSize && size > 0; size *= 2 {
		for rec := minRec; rec <= maxRec && rec <= size && rec > 0; rec *= 2 {
			if !(crossover && size > crossoverSize && rec < crossoverRec) {
				rows = append(rows, Row{size, rec})
			}
		}
	}
	return rows
}
