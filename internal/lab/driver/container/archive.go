package container

import (
	"archive/tar"
	"fmt"
	"io"
	"os"
	"time"
)

// dirMode lets the image's user, whoever that is, work in the folder. The container has only one process.
const dirMode = 0o777

// folder is a folder of an archive.
type folder struct {
	name string // relative to where the archive is unpacked, without a leading slash
	mode int64
}

// agentArchive streams a tar archive with the folders and, unless agentPath is "", the agent's executable as name. The
// caller closes the reader, which ends the writer, too.
func agentArchive(agentPath, name string, folders ...folder) io.ReadCloser {
	r, w := io.Pipe()
	go func() { w.CloseWithError(writeArchive(w, agentPath, name, folders)) }()
	return r
}

func writeArchive(w io.Writer, agentPath, name string, folders []folder) error {
	t := tar.NewWriter(w)
	for _, f := range folders {
		h := &tar.Header{Typeflag: tar.TypeDir, Name: f.name + "/", Mode: f.mode, ModTime: time.Unix(0, 0),
			Format: tar.FormatUSTAR}
		if err := t.WriteHeader(h); err != nil {
			return fmt.Errorf("pack folder %s: %w", f.name, err)
		}
	}
	if agentPath != "" {
		if err := writeAgent(t, agentPath, name); err != nil {
			return fmt.Errorf("pack agent %s: %w", agentPath, err)
		}
	}
	return t.Close()
}

func writeAgent(t *tar.Writer, agentPath, name string) error {
	f, err := os.Open(agentPath)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	// The owner is always root, so that no user of the container can replace the agent.
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: info.Size(), ModTime: time.Unix(0, 0),
		Format: tar.FormatPAX}
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.Copy(t, f)
	return err
}
