package servers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-cdc/sluice/chaos/origin"
	"github.com/sluice-cdc/sluice/chaos/process"
	"github.com/sluice-cdc/sluice/meta"
)

// etcdEnv is the variable that holds a directory: a program that finds it set is an etcd.
const etcdEnv = "SLUICE_CHAOS_ETCD"

// ServeChild is the upstream or the etcd of a Site, in a program that the Site has started
// to be one; started is false in any other. A Config's Program calls it before all else.
func ServeChild(ctx context.Context) (started bool, err error) {
	if text := os.Getenv(origin.Env); text != "" {
		var c origin.Config
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			return true, fmt.Errorf("%s: %w", origin.Env, err)
		}
		return true, origin.Serve(ctx, c, os.Stdin, os.Stdout)
	}
	if dir := os.Getenv(etcdEnv); dir != "" {
		return true, serveEtcd(ctx, dir, os.Stdin, os.Stdout)
	}
	return false, nil
}

// serveEtcd is an etcd with its data in dir, which tells where it is in a line of
// out, and ends when in does.
func serveEtcd(ctx context.Context, dir string, in io.Reader, out io.Writer) error {
	c := meta.Default()
	c.Backend, c.Embedded.DataDir = meta.BackendEmbedded, dir
	store, err := meta.Open(ctx, c)
	if err != nil {
		return err
	}
	defer store.Close()
	if _, err := fmt.Fprintln(out, strings.Join(store.Endpoints(), ",")); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

// openEtcd starts it in a process of its own.
func openEtcd(cfg Config) (*process.Process, []string, error) {
	dir := filepath.Join(cfg.Dir, "etcd")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	p, err := process.Start(process.Command{Name: "etcd", Program: cfg.Program, Env: []string{etcdEnv + "=" + dir}, Log: filepath.Join(cfg.Dir, "etcd.log"), Talk: true})
	if err != nil {
		return nil, nil, err
	}
	line, err := bufio.NewReader(p.Out).ReadString('\n')
	if err != nil {
		p.Kill()
		return nil, nil, errors.Join(fmt.Errorf("etcd has not told where it is: %w", err), p.In.Close(), p.Out.Close())
	}
	return p, strings.Split(strings.TrimSpace(line), ","), nil
}
