// Command bench measures the data path; see package bench.
package main

import (
	"context"
	"os"
	"os/signal"

	"github.com/sluice-cdc/sluice/bench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	status := bench.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}
