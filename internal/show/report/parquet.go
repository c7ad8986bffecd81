package report

import (
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// parquetBatch is the number of rows that are handed to the writer at once.
const parquetBatch = 1024

// Parquet writes the raw trials with the columns of CSV, typed. Unknown values are null, and text stands as it is:
// nothing takes a Parquet string for a formula. A row group holds the whole run, so that each column is read at once.
// Of a damaged bundle the file's key-value metadata say so.
func Parquet(w io.Writer, m *Model) error {
	about := []parquet.WriterOption{parquet.CreatedBy("tare", clean(m.Run.Version), clean(m.Run.Build))}
	if d := m.damage(); d != "" {
		about = append(about, parquet.KeyValueMetadata(damaged, d))
	}
	p := parquet.NewGenericWriter[rawRow](w, about...)
	var batch []rawRow
	flush := func() error {
		_, err := p.Write(batch)
		batch = batch[:0]
		return err
	}
	err := m.eachRaw(func(r *rawRow) error {
		if batch = append(batch, *r); len(batch) == parquetBatch {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	if err == nil {
		err = p.Close()
	}
	if err != nil {
		return fmt.Errorf("write Parquet report: %w", err)
	}
	return nil
}
