package restore

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"tare/internal/measure/fileio"
	"tare/internal/sys/bzip2"
)

// The parts of a backup.
const (
	partDump   = "dump"
	partDelta1 = "delta1"
	partDelta2 = "delta2"
	partFiles  = "attachments"
	partFaces  = "avatars"
)

// part is a compressed file of the backup.
type part struct {
	Role  string `json:"role"`
	MD5   string `json:"md5"`   // of the compressed file; its name is this and ".bz2"
	Size  int64  `json:"size"`  // bytes, compressed
	Plain int64  `json:"plain"` // bytes
}

func (p *part) name() string { return p.MD5 + ".bz2" }

// cached tells whether the part is in the cache from an earlier restore: only deltas are new.
func (p *part) cached() bool { return p.Role != partDelta1 && p.Role != partDelta2 }

// backup describes the contents of the parts. It is computed while they are generated, not by unpacking them.
type backup struct {
	Key    string             `json:"key"`
	Parts  []*part            `json:"parts"`
	Rows   [tableCount]int64  `json:"rows"`   // once the deltas are merged
	Digest [tableCount]string `json:"digest"` // of the rows in order of their keys, as COPY writes them
	Trees  map[string]tree    `json:"trees"`  // by role
	Merged int64              `json:"merged"` // bytes of the merged dump
}

// tree describes the contents of an archive.
type tree struct {
	Files  int64  `json:"files"`
	Bytes  int64  `json:"bytes"`
	Digest string `json:"digest"` // of paths and contents, in any order
}

func (b *backup) part(role string) *part {
	for _, p := range b.Parts {
		if p.Role == role {
			return p
		}
	}
	panic("restore: a backup without " + role)
}

// generate makes the parts of a backup of about size bytes in dir: half of it a database, half of it files.
func generate(ctx context.Context, dir string, size int64, seed uint64) (*backup, error) {
	b := &backup{Trees: map[string]tree{}}
	f := newForum(seed, size/2)
	var mu sync.Mutex
	makers := []struct {
		role string
		fill func(io.Writer) error
	}{
		{partFiles, func(w io.Writer) error { return b.archive(w, &mu, f, partFiles, size*3/8, seed) }},
		{partDump, func(w io.Writer) error { return writeDump(w, f, full) }},
		{partFaces, func(w io.Writer) error { return b.archive(w, &mu, f, partFaces, size/8, seed) }},
		{partDelta1, func(w io.Writer) error { return writeDump(w, f, delta1) }},
		{partDelta2, func(w io.Writer) error { return writeDump(w, f, delta2) }},
	}
	b.Parts = make([]*part, len(makers))
	errs := make([]error, len(makers))
	var all sync.WaitGroup
	for i, m := range makers {
		all.Go(func() {
			b.Parts[i], errs[i] = compress(ctx, dir, m.role, m.fill)
		})
	}
	all.Go(func() { b.expect(f) })
	all.Wait()
	return b, errors.Join(errs...)
}

// compress writes one part and gives it the name of its digest.
func compress(ctx context.Context, dir, role string, fill func(io.Writer) error) (_ *part, err error) {
	path := filepath.Join(dir, role+".part")
	f, err := os.Create(path)
	if err != nil {
		return nil, fileio.Explain("create", path, err)
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	sum := md5.New()
	out := &counting{w: io.MultiWriter(f, sum)}
	z, err := bzip2.NewWriter(out, 9)
	if err != nil {
		return nil, err
	}
	in := &counting{w: z, ctx: ctx}
	buffered := bufio.NewWriterSize(in, 64<<10)
	if err := fill(buffered); err != nil {
		return nil, fileio.Explain("write", path, err)
	}
	if err := errors.Join(buffered.Flush(), z.Close(), f.Close()); err != nil {
		return nil, fileio.Explain("write", path, err)
	}
	p := &part{Role: role, MD5: hex.EncodeToString(sum.Sum(nil)), Size: out.n, Plain: in.n}
	if err := os.Rename(path, filepath.Join(dir, p.name())); err != nil {
		return nil, fileio.Explain("rename", path, err)
	}
	return p, nil
}

// counting counts the bytes written through it, and stops when its context ends.
type counting struct {
	w   io.Writer
	ctx context.Context // may be nil
	n   int64
}

func (c *counting) Write(p []byte) (int, error) {
	if c.ctx != nil {
		if err := c.ctx.Err(); err != nil {
			return 0, err
		}
	}
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// expect computes the contents of the merged database.
func (b *backup) expect(f *forum) {
	out := &counting{w: io.Discard}
	_ = writeSections(out, f, func(table int, w io.Writer) error {
		h := sha256.New()
		var p []byte
		for key := int64(1); key <= f.keys(table); key++ {
			p = f.row(p[:0], table, f.latest(table, key), key)
			h.Write(p)
			_, _ = w.Write(p)
		}
		b.Rows[table], b.Digest[table] = f.keys(table), hex.EncodeToString(h.Sum(nil))
		return nil
	}, true)
	b.Merged = out.n
}

// writeDump writes the rows of one version: the full one with the tables around them, a delta with rows alone.
func writeDump(w io.Writer, f *forum, version int) error {
	var p []byte
	return writeSections(w, f, func(table int, w io.Writer) error {
		for key := int64(1); key < f.first(table, version+1); key++ {
			if !f.has(table, version, key) {
				continue
			}
			p = f.row(p[:0], table, version, key)
			if _, err := w.Write(p); err != nil {
				return err
			}
		}
		return nil
	}, version == full)
}

// writeSections writes what is around the rows, in the form and order of pg_dump.
func writeSections(w io.Writer, _ *forum, rows func(table int, w io.Writer) error, whole bool) error {
	text := func(format string, args ...any) error {
		_, err := fmt.Fprintf(w, format, args...)
		return err
	}
	if whole {
		if err := text("-- a forum, dumped\n\nSET client_encoding = 'UTF8';\n" +
			"SET standard_conforming_strings = on;\n\n"); err != nil {
			return err
		}
		for _, t := range tables {
			if err := text("CREATE TABLE %s (%s);\n", t.name, t.definition); err != nil {
				return err
			}
		}
	}
	for i, t := range tables {
		if err := text("\nCOPY %s (%s) FROM stdin;\n", t.name, t.columns); err != nil {
			return err
		}
		if err := rows(i, w); err != nil {
			return err
		}
		if err := text("\\.\n"); err != nil {
			return err
		}
	}
	if !whole {
		return nil
	}
	for _, t := range tables {
		if err := text("\nALTER TABLE ONLY %s ADD CONSTRAINT %s_pkey PRIMARY KEY (id);\n", t.name, t.name); err != nil {
			return err
		}
	}
	return text("CREATE INDEX posts_topic ON posts (topic);\nCREATE INDEX posts_author ON posts (author);\n")
}

// archiveTime is the time of modification of everything in an archive: 2001-02-03 04:05:06 UTC.
var archiveTime = time.Unix(981173106, 0).UTC()

// archive writes a tree of files as a tar: attachments, half text and half incompressible, or small pictures.
func (b *backup) archive(w io.Writer, mu *sync.Mutex, f *forum, role string, size int64, seed uint64) error {
	g := rand.New(rand.NewPCG(seed, uint64(len(role))))
	t, sum := tar.NewWriter(w), newTreeSum()
	var content []byte
	for n := 0; sum.bytes < size; n++ {
		if n%32 == 0 {
			if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: fmt.Sprintf("%s/%03d/", role, n/32),
				Mode: 0o755, ModTime: archiveTime}); err != nil {
				return err
			}
		}
		name := fmt.Sprintf("%s/%03d/%06d.%s", role, n/32, n,
			map[bool]string{true: "txt", false: "jpg"}[role == partFiles && n%2 == 0])
		length := int(min(max(1, size-sum.bytes), 2<<10+g.Int64N(4<<10)))
		if role == partFiles {
			length = int(min(max(1, size-sum.bytes), 4<<10+g.Int64N(88<<10)))
		}
		content = content[:0]
		if filepath.Ext(name) == ".txt" {
			for len(content) < length {
				content = append(f.words.text(content, g, 200), '\n')
			}
			content = content[:length]
		} else {
			content = append(content, make([]byte, length)...)
			fileio.FillRandom(content, g.Uint64())
		}
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(length),
			ModTime: archiveTime}); err != nil {
			return err
		}
		if _, err := t.Write(content); err != nil {
			return err
		}
		sum.add(name, content)
	}
	link := role + "/000/first"
	target := fmt.Sprintf("000000.%s", map[bool]string{true: "txt", false: "jpg"}[role == partFiles])
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: link, Linkname: target, Mode: 0o777,
		ModTime: archiveTime}); err != nil {
		return err
	}
	sum.add(link, []byte("-> "+target))
	mu.Lock()
	b.Trees[role] = sum.tree()
	mu.Unlock()
	return t.Close()
}

// treeSum is a checksum of a tree that does not depend on the order.
type treeSum struct {
	files, bytes int64
	sum          [sha256.Size]byte
}

func newTreeSum() *treeSum { return &treeSum{} }

func (s *treeSum) add(path string, content []byte) {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%d\x00", path, len(content))
	h.Write(content)
	for i, c := range h.Sum(nil) {
		s.sum[i] ^= c
	}
	s.files++
	s.bytes += int64(len(content))
}

func (s *treeSum) tree() tree { return tree{s.files, s.bytes, hex.EncodeToString(s.sum[:])} }
