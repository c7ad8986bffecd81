package report

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"sync"
)

// entry matches one of a workbook's table of contents. Sorted, those of name ends stand before those of parts, as they
// must.
var entry = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`<(?:Default|Override) [^>]*(?:/>|></(?:Default|Override)>)`)
})

// contentTypes is the part of a workbook that lists the others.
const contentTypes = "[Content_Types].xml"

// steady copies a workbook so that the same run gives the same bytes: the library writes the table of contents in the
// order of a Go map, and dates that no calendar has.
func steady(w io.Writer, book []byte) error {
	r, err := zip.NewReader(bytes.NewReader(book), int64(len(book)))
	if err != nil {
		return fmt.Errorf("read workbook again: %w", err)
	}
	out := zip.NewWriter(w)
	for _, f := range r.File {
		h := f.FileHeader
		//lint:ignore SA1019 Modified would write a field of its own beside them, and copying raw writes these.
		h.ModifiedDate, h.ModifiedTime = 1<<5|1, 0 // 1 January 1980, the first day of the format
		if f.Name == contentTypes {
			err = copySorted(out, f, h)
		} else {
			err = copyRaw(out, f, h)
		}
		if err != nil {
			return fmt.Errorf("copy %s of the workbook: %w", f.Name, err)
		}
	}
	return out.Close()
}

func copyRaw(out *zip.Writer, f *zip.File, h zip.FileHeader) error {
	to, err := out.CreateRaw(&h)
	if err != nil {
		return err
	}
	from, err := f.OpenRaw()
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return err
}

func copySorted(out *zip.Writer, f *zip.File, h zip.FileHeader) error {
	from, err := f.Open()
	if err != nil {
		return err
	}
	defer from.Close()
	text, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	entries := entry().FindAll(text, -1)
	sorted := slices.SortedFunc(slices.Values(entries), bytes.Compare)
	text = entry().ReplaceAllFunc(text, func([]byte) []byte {
		next := sorted[0]
		sorted = sorted[1:]
		return next
	})
	header := &zip.FileHeader{Name: h.Name, Method: zip.Deflate}
	//lint:ignore SA1019 as above
	header.ModifiedDate, header.ModifiedTime = h.ModifiedDate, h.ModifiedTime
	to, err := out.CreateHeader(header)
	if err != nil {
		return err
	}
	_, err = to.Write(text)
	return err
}
