// Command playground replays what a real TiDB did through Sluice into a
// database, and compares what arrived with what TiDB had.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/sluice-cdc/sluice/playground"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends what the first one could not
	status := playground.Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}
