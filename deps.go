//go:build deps

package sluice

import (
	_ "github.com/cockroachdb/pebble/v2/objstorage"
	_ "github.com/cockroachdb/pebble/v2/sstable"
	_ "github.com/cockroachdb/pebble/v2/vfs"
	_ "github.com/cockroachdb/pebble/v2/vfs/errorfs"
	_ "github.com/coreos/go-semver/semver"
	_ "github.com/dolthub/go-mysql-server"
	_ "github.com/dolthub/go-mysql-server/memory"
	_ "github.com/dolthub/go-mysql-server/server"
	_ "github.com/go-sql-driver/mysql"
	_ "github.com/google/btree"
	_ "github.com/pingcap/kvproto/pkg/cdcpb"
	_ "github.com/pingcap/kvproto/pkg/tikvpb"
	_ "github.com/pingcap/tidb/pkg/parser"
	_ "github.com/pingcap/tidb/pkg/parser/test_driver"
	_ "github.com/spf13/cobra"
	_ "github.com/tikv/pd/client"
	_ "go.uber.org/goleak"
	_ "golang.org/x/net/http2"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/tools/go/ast/inspector"
	_ "google.golang.org/grpc"
	_ "pgregory.net/rapid"
)
