package proc

func prepare(cmd *Cmd) {}

// Windows has no SIGTERM; both steps of the ladder end the process.
func terminate(cmd *Cmd) error { return cmd.Process.Kill() }

func kill(cmd *Cmd) error { return cmd.Process.Kill() }
