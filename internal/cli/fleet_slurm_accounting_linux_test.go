package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// slurmdbdConf has the ports of slurmdbd and of its database and the folder filled in.
const slurmdbdConf = `AuthType=auth/munge
AuthInfo=socket=%[3]s/munge.socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=%[1]d
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=%[2]d
StorageUser=root
StoragePass=none
StorageLoc=accounts
PidFile=%[3]s/dbd.pid
`

// database starts a real slurmdbd with a MariaDB of its own.
func (s *slurm) database(port int) {
	s.lab.Helper()
	need(s.lab, "slurmdbd", "sacct", "sacctmgr", "mariadbd", "mariadb-install-db")
	data, storage := s.file("data"), freePort(s.lab)
	if out, err := exec.Command("mariadb-install-db", "--no-defaults", "--user=root", "--datadir="+data,
		"--skip-test-db").CombinedOutput(); err != nil {
		s.lab.Fatalf("mariadb-install-db: %v %s", err, out)
	}
	s.run("mariadbd", "--no-defaults", "--user=root", "--datadir="+data, "--socket="+s.file("db.socket"),
		fmt.Sprintf("--port=%d", storage), "--bind-address=127.0.0.1", "--skip-grant-tables",
		"--innodb-flush-log-at-trx-commit=0", "--pid-file="+s.file("db.pid"))
	s.lab.file("slurm/slurmdbd.conf", fmt.Sprintf(slurmdbdConf, port, storage, s.dir))
	if err := os.Chmod(s.file("slurmdbd.conf"), 0o600); err != nil {
		s.lab.Fatal(err)
	}
	s.lab.await("the database's socket", func() bool { _, err := os.Stat(s.file("db.socket")); return err == nil })
	s.run("slurmdbd", "-D")
	s.lab.await("slurmdbd", func() bool {
		s.say("sacctmgr", "--immediate", "add", "cluster", "tare")
		return strings.Contains(s.say("sacctmgr", "--noheader", "show", "cluster", "format=cluster"), "tare")
	})
}

// TestFleetOnSlurmWithAccounting has a job cancelled while no controller watches, and the queue forget it: the
// accounting knows, and the part is not asked for again.
func TestFleetOnSlurmWithAccounting(t *testing.T) {
	l := newLab(t)
	s := l.slurm(slurmOptions{accounting: true})
	l.file("plan.yaml", "name: nodes\nbaseline: host\ntrial: 50ms\nblocks: 60\nenvironments:\n  host: local\n"+
		"  same: local\nworkloads:\n  - \"null\"\n")
	args := []string{"fleet", "run", "plan.yaml", "--on", "slurm", "-o", "nodes", "--by", "name", "--hosts", "n1",
		"--every", "200ms"}
	p := l.start(args...)
	p.until("the first trials", func() bool { return l.lines("nodes/run/part-1") >= 8 })
	l.kill(p.cmd.Process.Pid, syscall.SIGINT)
	p.end()
	job := s.say("squeue", "--noheader", "--format=%A")
	s.say("scancel", job)
	s.lab.await("the accounts of the job", func() bool {
		return strings.HasPrefix(s.say("sacct", "--noheader", "--parsable2", "--allocations", "--format=State",
			"--jobs="+job), "CANCELLED")
	})
	// A controller that begins without its state is a queue that has forgotten all.
	s.controller.Close()
	s.control("-c")
	s.endJobs()
	s.lab.await("an empty queue", func() bool { return s.say("squeue", "--noheader", "--states=all") == "" })
	o := l.do(args...)
	if said := strings.Join(strings.Fields(o.err), " "); o.code != 0 ||
		!strings.Contains(said, "failed n1, job "+job+": its job was cancelled") {
		t.Errorf("exit code %d:\n%s%s", o.code, o.err, o.out)
	}
	// What it measured counts, and nothing was asked for.
	if again := s.say("squeue", "--noheader", "--states=all"); again != "" ||
		!strings.Contains(o.out, "counted: 1 host") {
		t.Errorf("the queue has %q:\n%s", again, o.out)
	}
}
