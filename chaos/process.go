package chaos

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/tso"
)

// CaptureEnv is the variable that holds a Capture in JSON: a program that finds it
// set is to call RunCapture and nothing else.
const CaptureEnv = "SLUICE_CHAOS_CAPTURE"

// child is the capture's process, in all its lives.
type child struct {
	config  Capture
	program string // this very one

	mu        sync.Mutex
	saved     tso.TS // the highest that was told
	wrong     []string
	reached   chan struct{} // closed when saved has reached until
	until     tso.TS        // 0: not known yet
	processes int
	memoryMax int64 // the most that any of them has taken, in bytes
	said      bytes.Buffer
}

// saidMax bounds what is kept of the words of processes: the last of them count.
const saidMax = 1 << 20

// end is how one process ended.
type end struct {
	killed bool
	status int
}

// live lets one process live until it ends, or kill does it with -9.
func (c *child) live(ctx context.Context, kill *Kill) (end, error) {
	c.mu.Lock()
	c.processes++
	c.config.ID = capture.ID(fmt.Sprintf("capture-%d", c.processes))
	c.mu.Unlock()
	config, err := json.Marshal(c.config)
	if err != nil {
		return end{}, err
	}
	cmd := exec.Command(c.program)
	cmd.Env = append(os.Environ(), CaptureEnv+"="+string(config))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return end{}, err
	}
	cmd.Stderr = said{c}
	if err := cmd.Start(); err != nil {
		return end{}, err
	}
	var g errgroup.Group
	w := &watched{process: cmd.Process, kill: kill, over: make(chan struct{}), begun: make(chan struct{}), enough: make(chan struct{})}
	g.Go(func() error { return c.listen(out, w) })
	var killed bool
	g.Go(func() error {
		killed = c.watch(ctx, w)
		return nil
	})
	// The pipe is read to its end before the process is waited for.
	err = c.wait(cmd, w.over, &g)
	return end{killed: killed, status: cmd.ProcessState.ExitCode()}, err
}

func (c *child) wait(cmd *exec.Cmd, over chan struct{}, g *errgroup.Group) error {
	state, err := cmd.Process.Wait()
	close(over)
	listened := g.Wait()
	_ = cmd.Wait() // gathers stderr; that the process is gone is known
	if err != nil {
		return err
	}
	cmd.ProcessState = state
	return listened
}

// watched is one process.
type watched struct {
	process *os.Process
	kill    *Kill         // nil: it lives as long as it will
	over    chan struct{} // closed when it has ended
	begun   chan struct{} // closed when the changefeed goes on
	enough  chan struct{} // closed when it has persisted as much as it was to
}

// watch ends a process when it is time to, and looks how much memory it takes.
func (c *child) watch(ctx context.Context, w *watched) (killed bool) {
	// A timer that is not started yet; a life that never begins is not the kill's matter.
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	begun := w.begun
	if w.kill != nil && w.kill.Early {
		timer.Reset(w.kill.After)
		begun = nil
	}
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	reached, done, enough := c.reached, ctx.Done(), w.enough
	for {
		select {
		case <-w.over:
			return killed
		case <-look.C:
			c.weigh(w.process.Pid)
			continue
		case <-begun:
			if begun = nil; w.kill != nil {
				timer.Reset(w.kill.After)
			}
			continue
		case <-timer.C:
		case <-enough:
			enough = nil
		case <-reached:
			reached = nil
			_ = w.process.Signal(syscall.SIGTERM)
			continue
		case <-done:
			done = nil
		}
		killed = true
		_ = w.process.Kill()
	}
}

// weigh reads the most memory that a process has taken so far.
func (c *child) weigh(pid int) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return
	}
	kb, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.memoryMax = max(c.memoryMax, kb<<10)
}

// listen takes what a process tells of its progress.
func (c *child) listen(out io.Reader, w *watched) error {
	lines := bufio.NewScanner(out)
	lives, saved := 0, 0
	for lines.Scan() {
		word, number, _ := strings.Cut(lines.Text(), " ")
		ts, err := tso.Parse(number)
		if err != nil {
			return err
		}
		switch c.told(word, ts); word {
		case "begin":
			if lives++; lives == 1 {
				close(w.begun)
			}
		case "saved":
			if saved++; w.kill != nil && saved == w.kill.Checkpoints {
				close(w.enough)
			}
		}
	}
	return nil // a pipe that breaks is one whose process was killed
}

// told is one line.
func (c *child) told(word string, ts tso.TS) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ts < c.saved {
		c.wrong = append(c.wrong, fmt.Sprintf("P3, P7: %s %d, %d was persisted", word, ts, c.saved))
	}
	if word == "saved" {
		c.saved = max(c.saved, ts)
		c.doneLocked()
	}
}

// finish says where the end is: a process that has persisted it is told to end.
func (c *child) finish(end tso.TS) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = end
	c.doneLocked()
}

func (c *child) doneLocked() {
	if c.until != 0 && c.saved >= c.until {
		select {
		case <-c.reached:
		default:
			close(c.reached)
		}
	}
}

// said keeps the last words of processes.
type said struct{ of *child }

func (s said) Write(b []byte) (int, error) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.said.Write(b)
	if more := s.of.said.Len() - saidMax; more > 0 {
		s.of.said.Next(more)
	}
	return len(b), nil
}
