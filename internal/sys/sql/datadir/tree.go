package datadir

import (
	"archive/tar"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// PackTree writes the archive of a tree of files, such as the build of a revision, with its symbolic links and
// executable bits. Folders and files called .git, which are no part of what is built, are left out.
func PackTree(dst io.Writer, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	p := packer{root: root, tar: tar.NewWriter(dst), tree: true}
	return p.all(dir)
}

// git is the name of what git keeps beside the files of a revision.
const git = ".git"

// link packs a symbolic link.
func (p *packer) link(name string) error {
	target, err := p.root.Readlink(name)
	if err != nil {
		return err
	}
	return p.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: filepath.ToSlash(target),
		Mode: 0o777, Format: tar.FormatPAX})
}

// skipped tells whether an entry is left out, and returns what WalkDir wants to hear then.
func (p *packer) skipped(d fs.DirEntry) (bool, error) {
	if !p.tree || d.Name() != git {
		return false, nil
	}
	if d.IsDir() {
		return true, fs.SkipDir
	}
	return true, nil
}
