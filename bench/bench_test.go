package bench_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-cdc/sluice/bench"
)

// asChild makes this test binary a bench process, as the parent starts it.
const asChild = "BENCH_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(asChild) != "" {
		os.Exit(bench.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

// A whole run, small: both clients see all rows, and the report says so.
func TestSmallRun(t *testing.T) {
	t.Setenv(asChild, "1")
	var out, errs bytes.Buffer
	status := bench.Main(context.Background(), []string{"-rows", "2000", "-pairs", "2", "-lag", "0", "-quota", "4",
		"-regions", "500", "-idle", "100ms", "-tables", "200", "-database", "0", "-redo", "0", "-strict=false"}, io.NopCloser(strings.NewReader("")), &out, &errs)
	if status != 0 {
		t.Fatalf("status %d: %s", status, &errs)
	}
	for _, want := range []string{"2000 rows of 200 bytes", "one hot region", "   1  bare ", "   2  stream ", "median of 2 pairs", "one transaction of 76608 rows, 4 times the quota of 4 MiB", "500 regions in which nothing happens",
		" 200 tables are created"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

// The lags are watched for a moment: the report has them all, and rows came.
func TestLags(t *testing.T) {
	t.Setenv(asChild, "1")
	var out, errs bytes.Buffer
	status := bench.Main(context.Background(), []string{"-pairs", "0", "-lag", "400ms", "-quota", "0", "-regions", "0", "-tables", "0",
		"-database", "0", "-redo", "0", "-strict=false", "-recording", "../testdata/golden/workloads/bank.jsonl.gz"}, io.NopCloser(strings.NewReader("")), &out, &errs)
	if status != 0 {
		t.Fatalf("status %d: %s", status, &errs)
	}
	for _, want := range []string{"at recorded speed", "     200ms  heartbeats ", "        1s  heartbeats ", "        1s  checkpoint "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

// The database is written to and looked at: all rows come, and the report says so.
func TestIntoADatabase(t *testing.T) {
	t.Setenv(asChild, "1")
	var out, errs bytes.Buffer
	status := bench.Main(context.Background(), []string{"-pairs", "0", "-lag", "300ms", "-quota", "0", "-regions", "0", "-tables", "0",
		"-database", "2000", "-redo", "0", "-strict=false", "-recording", "../testdata/golden/workloads/bank.jsonl.gz"}, io.NopCloser(strings.NewReader("")), &out, &errs)
	if status != 0 {
		t.Fatalf("status %d: %s\n%s", status, &errs, &out)
	}
	for _, want := range []string{"2000 rows into a MariaDB on this machine, commits that wait for the disk", "   3  16 ", "commits that do not\n", "16 workers write", "into a MariaDB whose commits wait", "     200ms  heartbeats "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	t.Log(&out)
}

// A server is run without a redo log and with one, and a log applied, also of one large
// transaction, and where there is time to a database: all rows come, and the report says so.
func TestRedo(t *testing.T) {
	t.Setenv(asChild, "1")
	var out, errs bytes.Buffer
	args := []string{"-only", "redo", "-redo", "2000", "-pairs", "1", "-quota", "4", "-strict=false", "-lag", "200ms", "-database", "500"}
	wants := []string{"through a server with a redo log and a quota of 160 MiB", "applied with --memory-limit of 256 MiB", "2000 rows through a server into a black hole",
		"   1  none ", "   1  file ", "   1  s3 ", "file: median of 1 pairs", "s3: median of 1 pairs"}
	if testing.Short() {
		args = append(args, "-lag", "0", "-database", "0")
	} else {
		wants = append(wants, "500 rows of a redo log into a MariaDB", "file   checkpoint ", "s3     heartbeats ", "s3     meta ")
	}
	if status := bench.Main(context.Background(), args, io.NopCloser(strings.NewReader("")), &out, &errs); status != 0 {
		t.Fatalf("status %d: %s\n%s", status, &errs, &out)
	}
	for _, want := range wants {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	t.Log(&out)
}

func TestBadArguments(t *testing.T) {
	for _, args := range [][]string{{"-pairs", "-1"}, {"-rows", "-1"}, {"nobody"}, {"-banana"}, {"-only", "nothing"}} {
		var out, errs bytes.Buffer
		if bench.Main(context.Background(), args, io.NopCloser(strings.NewReader("")), &out, &errs) == 0 || errs.Len() == 0 {
			t.Errorf("%v: accepted, %q", args, errs.String())
		}
	}
}

// A measurement that does not end is ended.
func TestPatience(t *testing.T) {
	t.Setenv(asChild, "1")
	var out, errs bytes.Buffer
	args := []string{"-pairs", "1", "-rows", "1000", "-patience", "1ms"}
	status := bench.Main(context.Background(), args, io.NopCloser(strings.NewReader("")), &out, &errs)
	if status == 0 || !strings.Contains(errs.String(), "not done within 1ms") {
		t.Fatalf("%d %s", status, &errs)
	}
}

// A child whose parent is gone ends, with an error and without a goroutine left.
func TestChildEndsWithItsParent(t *testing.T) {
	var out, errs bytes.Buffer
	gone := io.NopCloser(strings.NewReader(""))
	if bench.Main(context.Background(), []string{"bare", "-pd", "127.0.0.1:1"}, gone, &out, &errs) == 0 || out.Len() != 0 {
		t.Fatalf("%s %s", &out, &errs)
	}
}
