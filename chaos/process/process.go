package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// Command is what is started.
type Command struct {
	Name    string // for errors
	Program string
	Args    []string
	Env     []string // beside this process's own
	Log     string   // a file to which it goes on writing what it says
	Talk    bool     // its input and output are for whoever has started it
}

// Process is one that was started.
type Process struct {
	In  io.WriteCloser // its input, where it talks
	Out io.ReadCloser  // its output, where it talks; to be closed by whoever reads it

	name  string
	cmd   *exec.Cmd
	over  chan struct{} // closed when it has ended
	group errgroup.Group
}

// Start starts a process.
func Start(c Command) (*Process, error) {
	p := &Process{name: c.Name, cmd: exec.Command(c.Program, c.Args...), over: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), c.Env...)
	// A group of its own: a ^C at the terminal is for the test, which ends it.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	given, err := p.connect(c)
	if err == nil {
		started := make(chan error, 1)
		p.group.Go(func() error { return p.run(started) })
		err = <-started
	}
	for _, f := range given {
		err = errors.Join(err, f.Close()) // the process has its own
	}
	if err != nil {
		_ = p.group.Wait() // its error is the one that is told
		if p.In != nil {
			err = errors.Join(err, p.In.Close(), p.Out.Close())
		}
		return nil, fmt.Errorf("starting %s: %w", c.Name, err)
	}
	return p, nil
}

// connect gives a process its input and outputs; what it returns is the process's
// side of them.
func (p *Process) connect(c Command) (given []*os.File, err error) {
	if c.Log != "" {
		f, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		p.cmd.Stdout, p.cmd.Stderr = f, f
		given = append(given, f)
	}
	if !c.Talk {
		return given, nil
	}
	in, toIn, err := os.Pipe()
	if err != nil {
		return given, err
	}
	fromOut, out, err := os.Pipe()
	if err != nil {
		return append(given, in, toIn), err
	}
	p.cmd.Stdin, p.In, p.cmd.Stdout, p.Out = in, toIn, out, fromOut
	return append(given, in, out), nil
}

func (p *Process) run(started chan<- error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return err
	}
	defer close(p.over)
	return p.cmd.Wait()
}

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Over is closed when the process has ended.
func (p *Process) Over() <-chan struct{} { return p.over }

// Wait waits for its end. Its error says how it ended, unless that was in good order.
func (p *Process) Wait() error {
	err := p.group.Wait()
	if err != nil {
		return fmt.Errorf("%s, process %d: %w", p.name, p.PID(), err)
	}
	return nil
}

// Signal sends it a signal. One that has ended hears nothing.
func (p *Process) Signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s, process %d: signal %v: %w", p.name, p.PID(), s, err)
	}
	return nil
}

// Kill ends it where it stands, and waits for that.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // one that has ended needs no kill
	<-p.over
}

// Stop tells it to end in good order, and kills it when it has not after some
// time: that, too, is an error.
func (p *Process) Stop(patience time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return p.end(patience, "it was told to end")
}

// Leave closes its input, at whose end it is to end, and waits as Stop does.
func (p *Process) Leave(patience time.Duration) error {
	return errors.Join(p.In.Close(), p.end(patience, "its input has ended"))
}

func (p *Process) end(patience time.Duration, since string) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.over:
		return p.Wait()
	case <-timer.C:
	}
	p.Kill()
	return fmt.Errorf("%s, process %d: still there %v after %s", p.name, p.PID(), patience, since)
}
