package objstoretest

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/internal/freeport"
)

// Install is the command that installs the servers.
const Install = "make objstores"

// The servers, as the command installs them.
const (
	s3Server    = "versitygw-v1.8.0"
	gcsServer   = "fake-gcs-server-v1.56.1"
	azureServer = "azurite/node_modules/.bin/azurite-blob"
)

// BucketName is what the bucket of each server is called.
const BucketName = "redo"

const (
	account = "sluice"
	secret  = "tests-only-0123456789"
	// startMax bounds a start: a second or two on an idle machine.
	startMax = time.Minute
	// lookEvery is how often is looked whether a server listens.
	lookEvery = 20 * time.Millisecond
)

// keeper runs a server as its child, and ends it when its own input ends: when the
// test is done, and when the test's process dies in whatever way.
const keeper = `"$@" & child=$!; trap 'kill "$child"' TERM INT; read -r line; kill "$child" 2>/dev/null; wait "$child"`

// S3 is the URI of a bucket of a real S3 server, which keeps it in a directory.
func S3(tb testing.TB) string {
	tb.Helper()
	uri, stop, err := OpenS3(tb.Context(), tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(stop)
	return uri
}

// OpenS3 is S3 for what is no test: the bucket is the folder BucketName of the
// directory, and there until stop is called.
func OpenS3(ctx context.Context, dir string) (uri string, stop func(), err error) {
	if err := os.Mkdir(filepath.Join(dir, BucketName), 0o755); err != nil {
		return "", nil, err
	}
	endpoint, stop, err := open(ctx, s3Server, nil, func(port string) []string {
		return []string{"--quiet", "--access", account, "--secret", secret, "--port", "127.0.0.1:" + port, "posix", dir}
	})
	return "s3://" + BucketName + "/some/prefix?endpoint=" + url.QueryEscape(endpoint) +
		"&access-key=" + account + "&secret-access-key=" + secret + "&force-path-style=true", stop, err
}

// GCS is the URI of a bucket of a server that speaks Google's JSON interface.
func GCS(tb testing.TB) string {
	tb.Helper()
	endpoint := start(tb, gcsServer, nil, func(port string) []string {
		return []string{"-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", port, "-log-level", "error",
			"-external-url", "http://127.0.0.1:" + port, "-public-host", "127.0.0.1:" + port}
	})
	req, err := http.NewRequestWithContext(tb.Context(), http.MethodPost, endpoint+"/storage/v1/b", bytes.NewReader([]byte(`{"name":"`+BucketName+`"}`)))
	if err != nil {
		tb.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(req)
	if err != nil {
		tb.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusOK {
		tb.Fatalf("making a bucket: %s, %v", answer.Status, err)
	}
	return "gcs://" + BucketName + "/some/prefix?endpoint=" + url.QueryEscape(endpoint)
}

// Azure is the URI of a container of a server that speaks Azure's interface.
func Azure(tb testing.TB) string {
	tb.Helper()
	key := base64.StdEncoding.EncodeToString([]byte(secret))
	dir := tb.TempDir()
	endpoint := start(tb, azureServer, []string{"AZURITE_ACCOUNTS=" + account + ":" + key}, func(port string) []string {
		return []string{"--silent", "--skipApiVersionCheck", "--disableTelemetry", "--blobHost", "127.0.0.1", "--blobPort", port, "--location", dir}
	}) + "/" + account
	shared, err := container.NewSharedKeyCredential(account, key)
	if err != nil {
		tb.Fatal(err)
	}
	opts := &container.ClientOptions{}
	opts.Transport = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	c, err := container.NewClientWithSharedKeyCredential(endpoint+"/"+BucketName, shared, opts)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := c.Create(tb.Context(), nil); err != nil {
		tb.Fatal(err)
	}
	return "azblob://" + BucketName + "/some/prefix?endpoint=" + url.QueryEscape(endpoint) +
		"&account-name=" + account + "&account-key=" + url.QueryEscape(key)
}

// errPortTaken says that another process took the port that was free.
var errPortTaken = errors.New("the server ended before it listened: its port may have been taken")

// start runs a server until tb ends, and gives its address once it listens.
func start(tb testing.TB, program string, env []string, args func(port string) []string) string {
	tb.Helper()
	endpoint, stop, err := open(tb.Context(), program, env, args)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(stop)
	return endpoint
}

// open runs a server until stop is called.
func open(ctx context.Context, program string, env []string, args func(port string) []string) (endpoint string, stop func(), err error) {
	path, err := find(program)
	if err != nil {
		return "", nil, err
	}
	for try := 1; ; try++ {
		free, err := freeport.Pick()
		if err != nil {
			return "", nil, err
		}
		port := strconv.Itoa(free)
		stop, err := launch(ctx, path, env, args(port), port)
		if err == nil {
			return "http://127.0.0.1:" + port, stop, nil
		}
		if try == 4 || !errors.Is(err, errPortTaken) {
			return "", nil, err
		}
	}
}

// find looks where the command of Install puts the servers.
func find(program string) (string, error) {
	for dir := "."; len(dir) < 64; dir = filepath.Join("..", dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
			continue
		}
		path, err := filepath.Abs(filepath.Join(dir, ".cache", "bin", program))
		if err == nil {
			_, err = os.Stat(path)
		}
		if err != nil {
			return "", fmt.Errorf("no %s; run: %s: %w", program, Install, err)
		}
		return path, nil
	}
	return "", errors.New("no go.mod above the package that is tested")
}

func launch(ctx context.Context, path string, env, args []string, port string) (stop func(), err error) {
	if _, err := strconv.Atoi(port); err != nil {
		return nil, err
	}
	cmd := exec.Command("/bin/sh", append([]string{"-c", keeper, "keeper", path}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a ^C at the terminal ends it by way of the test
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	gone := make(chan struct{})
	var g errgroup.Group
	g.Go(func() error {
		defer close(gone)
		return cmd.Wait()
	})
	stop = func() {
		_ = stdin.Close()
		_ = g.Wait() // it was killed, and says so
	}
	ctx, cancel := context.WithTimeout(ctx, startMax)
	defer cancel()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = conn.Close() // it said nothing
			return stop, nil
		}
		select {
		case <-look.C:
		case <-gone:
			stop()
			return nil, fmt.Errorf("%w: %s: %s", errPortTaken, filepath.Base(path), said.String())
		case <-ctx.Done():
			stop()
			return nil, fmt.Errorf("%s does not listen after %v: %s", filepath.Base(path), startMax, said.String())
		}
	}
}
