package playground

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/memory"
	"github.com/dolthub/go-mysql-server/server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"
	"github.com/dolthub/vitess/go/vt/sqlparser"
	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// Embedded is a database in this process that speaks MySQL's protocol on
// loopback and keeps everything in memory: what the demo writes to, and what any
// MySQL client can look into.
type Embedded struct {
	listener net.Listener
	server   *server.Server
}

// OpenEmbedded takes a port, 0 for a free one; it serves once it runs.
func OpenEmbedded(port int) (*Embedded, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, cdcerr.InvalidArgument.Wrap(err, "--mysql-port %d: the embedded database cannot listen; give another port, or leave it out for a free one", port)
	}
	logrus.SetOutput(io.Discard) // the engine logs every client's error through it
	provider := memory.NewDBProvider()
	engine := sqle.New(newAnalyzer(provider), nil)
	chain := server.InterceptorChain{}
	chain.WithInterceptor(gate{&serial{}})
	s, err := server.NewServer(server.Config{Listener: listener, Options: []server.Option{chain.Option()}},
		engine, sql.NewContext, memory.NewSessionBuilder(provider), nil)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("embedded database: %w", err), listener.Close())
	}
	return &Embedded{listener: listener, server: s}, nil
}

// newAnalyzer is the engine's planner without one rule: where unused columns are
// pruned, COUNT(*) over a table with a virtual generated column fails.
func newAnalyzer(provider sql.DatabaseProvider) *analyzer.Analyzer {
	b := analyzer.NewBuilder(provider)
	for _, r := range analyzer.DefaultRules {
		if r.Id.String() == "pruneTables" {
			b.RemoveDefaultRule(r.Id)
		}
	}
	return b.Build()
}

// Addr is host:port.
func (e *Embedded) Addr() string { return e.listener.Addr().String() }

// URI is the sink URI of the database.
func (e *Embedded) URI() string { return "mysql://root@" + e.Addr() + "/" }

// Run serves until ctx ends.
func (e *Embedded) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(e.server.Start)
	g.Go(func() error {
		<-ctx.Done()
		return e.server.Close()
	})
	return g.Wait()
}

// gate answers with an error what the engine would take and forget, and lets through
// at a time what it would otherwise mix up.
type gate struct{ turns *serial }

// forgotten are clauses that the engine parses and drops, with what to say.
var forgotten = []struct{ words, what string }{
	{"PARTITION BY", "partitions"},
	{"ADD PARTITION", "partitions"},
}

func refuse(query string) error {
	text := " " + strings.Join(strings.Fields(strings.ToUpper(code(query))), " ") + " "
	for _, f := range forgotten {
		if strings.Contains(text, " "+f.words+" ") {
			return mysql.NewSQLError(mysql.ERUnknownError, mysql.SSUnknownSQLState,
				"the embedded database has no %s (%s); use --sink-uri with a real one", f.what, f.words)
		}
	}
	return nil
}

// code is a statement without its strings, quoted names and comments.
func code(query string) string {
	var b strings.Builder
	for i := 0; i < len(query); i++ {
		switch c := query[i]; {
		case c == '\'' || c == '"' || c == '`':
			i = endOfQuoted(query, i)
			b.WriteByte(' ')
		case strings.HasPrefix(query[i:], "/*"):
			end := strings.Index(query[i+2:], "*/")
			if end < 0 {
				return b.String()
			}
			i += 2 + end + 1
			b.WriteByte(' ')
		case c == '(' || c == ')' || c == ',':
			b.WriteByte(' ')
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func endOfQuoted(query string, start int) int {
	quote := query[start]
	for i := start + 1; i < len(query); i++ {
		switch query[i] {
		case '\\':
			if quote != '`' {
				i++
			}
		case quote:
			return i // a doubled quote opens the next string at once
		}
	}
	return len(query)
}

// Priority: there is no other interceptor.
func (gate) Priority() int { return 0 }

// Query checks a statement sent as text.
func (g gate) Query(ctx context.Context, chain server.Chain, c *mysql.Conn, query string, callback func(*sqltypes.Result, bool) error) error {
	if err := refuse(query); err != nil {
		return err
	}
	return g.turns.run(ctx, c, query, func() error { return chain.ComQuery(ctx, c, query, callback) })
}

// ParsedQuery checks a statement that was parsed before.
func (g gate) ParsedQuery(chain server.Chain, c *mysql.Conn, query string, _ sqlparser.Statement, callback func(*sqltypes.Result, bool) error) error {
	if err := refuse(query); err != nil {
		return err
	}
	ctx := context.Background()
	return g.turns.run(ctx, c, query, func() error { return chain.ComQuery(ctx, c, query, callback) })
}

// MultiQuery checks the statements of one packet.
func (g gate) MultiQuery(ctx context.Context, chain server.Chain, c *mysql.Conn, query string, callback func(*sqltypes.Result, bool) error) (rest string, err error) {
	if err := refuse(query); err != nil {
		return "", err
	}
	err = g.turns.run(ctx, c, query, func() error {
		rest, err = chain.ComMultiQuery(ctx, c, query, callback)
		return err
	})
	return rest, err
}

// Prepare checks a statement to be prepared.
func (gate) Prepare(ctx context.Context, chain server.Chain, c *mysql.Conn, query string, prepare *mysql.PrepareData) ([]*querypb.Field, error) {
	if err := refuse(query); err != nil {
		return nil, err
	}
	return chain.ComPrepare(ctx, c, query, prepare)
}

// StmtExecute runs what was checked when it was prepared.
func (g gate) StmtExecute(ctx context.Context, chain server.Chain, c *mysql.Conn, prepare *mysql.PrepareData, callback func(*sqltypes.Result) error) error {
	return g.turns.run(ctx, c, prepare.PrepareStmt, func() error { return chain.ComStmtExecute(ctx, c, prepare, callback) })
}
