package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	gomysql "github.com/go-sql-driver/mysql"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// sqlMode is the mode of a session: TiDB's default without all that refuses a
// value (upstream has judged it already), with zero in an AUTO_INCREMENT
// column and dates that no calendar has as they are. A space between a function
// and its parenthesis is TiDB's habit.
const sqlMode = "ONLY_FULL_GROUP_BY,NO_ENGINE_SUBSTITUTION,IGNORE_SPACE,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES"

// strictMode goes into the mode of sessions that write rows: a value that the
// column downstream cannot hold, because somebody has altered it, is an error there
// and not cut. NO_ZERO_DATE and its kin stay out: upstream may hold such values.
const strictMode = ",STRICT_TRANS_TABLES,STRICT_ALL_TABLES"

// modeOn is the SQL mode of a session on a dialect.
func modeOn(d Dialect, strict bool) string {
	mode := sqlMode
	if d.Kind == MariaDB {
		// A MODIFY to fewer fraction digits rounds in TiDB and MySQL; MariaDB cuts without this.
		mode += ",TIME_ROUND_FRACTIONAL"
	}
	if strict {
		mode += strictMode
	}
	return mode
}

// utc is a zone that needs no time zone tables.
const utc = "+00:00"

// allRows is no limit to sql_select_limit, of which DEFAULT would be the global value.
const allRows = "18446744073709551615"

// A setting is one statement of a session's start.
type setting struct {
	sql string
	// optional settings may name a variable that the server does not have, or
	// that this user may not set: the server's default is right there.
	optional bool
}

func settings(d Dialect, strict bool, c *Config) []setting {
	set := []setting{
		{sql: "SET NAMES utf8mb4 COLLATE utf8mb4_bin"},
		{sql: "SET SESSION sql_mode = '" + modeOn(d, strict) + "'"},
		{sql: "SET SESSION time_zone = '" + utc + "'"},
		{sql: "SET SESSION foreign_key_checks = 0"},
		{sql: "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", optional: d.Kind == Other},
		// What a server's globals make of every session: statements that nobody commits,
		// and answers that lack rows without a word.
		{sql: "SET SESSION autocommit = 1", optional: d.Kind == Other},
		{sql: "SET SESSION sql_big_selects = 1", optional: true},
	}
	if d.Kind != Other { // one that takes it for a signed number has it below zero, and refuses every SELECT
		set = append(set, setting{sql: "SET SESSION sql_select_limit = " + allRows, optional: d.Kind == TiDB})
	}
	if d.Kind == MariaDB || d.Kind == MySQL {
		// What a transaction wrote to a MyISAM table stays when it is rolled back.
		set = append(set, setting{sql: "SET SESSION default_storage_engine = InnoDB"})
	}
	if !c.NoFence {
		set = append(set, idleSettings(d)...)
	}
	switch d.Kind {
	case TiDB:
		for _, s := range []string{
			"tidb_txn_mode = '" + c.TxnMode + "'",
			"allow_auto_random_explicit_insert = 1",
			"tidb_placement_mode = 'ignore'",
			"tidb_enable_external_ts_read = OFF",
		} {
			set = append(set, setting{sql: "SET SESSION " + s, optional: true})
		}
		set = append(set, setting{sql: "SET SESSION tidb_cdc_write_source = 1", optional: !c.BDR})
	case MariaDB:
		set = append(set,
			// JSON is text with CHECK (JSON_VALID): documents deeper than 32 levels are not valid to it.
			setting{sql: "SET SESSION check_constraint_checks = 0", optional: true},
			setting{sql: "SET SESSION explicit_defaults_for_timestamp = 1", optional: true},
			setting{sql: "SET SESSION innodb_strict_mode = 0", optional: true})
	case MySQL:
		set = append(set,
			setting{sql: "SET SESSION explicit_defaults_for_timestamp = 1", optional: true},
			// A hidden key of the downstream's own would give tables a column that upstream has not.
			setting{sql: "SET SESSION sql_generate_invisible_primary_key = OFF", optional: true},
			setting{sql: "SET SESSION innodb_strict_mode = 0", optional: true})
	case Other:
	}
	return set
}

// idleTransaction is how long a transaction may stand still before the server ends
// it: that of a process that was stopped in its midst holds its row at the fence, and
// whoever raises that waits for it. MySQL has no setting of its own for transactions, nor
// have older releases of TiDB: there the server ends the whole connection, when nothing
// has come on it for idleConnection, which is asked about when it is used after idleLong.
const (
	idleTransaction = 3 * time.Second
	idleConnection  = 10 * time.Second
)

func idleSettings(d Dialect) []setting {
	set := func(name string, idle time.Duration) setting {
		return setting{sql: fmt.Sprintf("SET SESSION %s = %d", name, idle/time.Second), optional: true}
	}
	switch d.Kind {
	case MariaDB:
		return []setting{set("idle_transaction_timeout", idleTransaction)}
	case TiDB:
		return []setting{set("tidb_idle_transaction_timeout", idleTransaction), set("wait_timeout", idleConnection)}
	case MySQL:
		return []setting{set("wait_timeout", idleConnection)}
	case Other:
	}
	return nil
}

// session is one connection to write on. It is opened when it is first needed
// and again after a failure.
type session struct {
	cfg    Config
	pool   *sql.DB
	conn   *sql.Conn // nil: none yet, or lost
	strict bool      // values that do not fit are refused

	used time.Time // when the server last answered

	post post // its place at the fence
	// guard goes in one packet with each statement, before it: what was sent and not
	// begun when its sender was fenced off is refused. Empty: nothing does.
	guard string

	// Where a transaction's statements are printed and put together: kept for the next.
	printed, packed []byte

	dialect   Dialect
	maxPacket int  // the server's max_allowed_packet
	multi     bool // the server takes several statements at once
}

func newSession(cfg Config, pool *sql.DB) *session { return &session{cfg: cfg, pool: pool} }

// packetSlack is what a packet holds beside the text of its statement.
const packetSlack = 1 << 10

// maxStatement is how many bytes a statement may have.
func (s *session) maxStatement() int { return max(s.maxPacket-packetSlack, packetSlack) }

// OpenDB is a pool of connections to the same database as a sink's, for whoever
// reads what a sink wrote: in utf8mb4, and in UTC. The caller closes it.
func OpenDB(cfg Config) (*sql.DB, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return openPool(&connector{cfg: cfg, variables: map[string]string{"time_zone": "'" + utc + "'", "autocommit": "1"}})
}

// connector opens connections, each with the certificates that stand in the
// files at that time: they may be rotated while a changefeed runs.
type connector struct {
	cfg       Config
	variables map[string]string
	multi     bool // several statements at once are asked for
}

// Connect implements driver.Connector.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	real, err := c.driver()
	if err != nil {
		return nil, err
	}
	return real.Connect(ctx)
}

// Driver implements driver.Connector.
func (c *connector) Driver() driver.Driver { return gomysql.MySQLDriver{} }

func (c *connector) driver() (driver.Connector, error) {
	tlsConfig, err := c.cfg.tls()
	if err != nil {
		return nil, err
	}
	m := gomysql.NewConfig()
	m.User, m.Passwd = c.cfg.User, c.cfg.Password.Reveal()
	m.Net, m.Addr, m.TLS = "tcp", c.cfg.Addr(), tlsConfig
	m.Timeout, m.WriteTimeout = c.cfg.DialTimeout, c.cfg.WriteTimeout
	// Reads wait as long as their context: an ALTER may take hours.
	m.ReadTimeout = 0
	m.MaxAllowedPacket = 1 << 30      // statements are cut to the server's own limit here
	m.Logger = new(gomysql.NopLogger) // what goes wrong is in the errors
	m.Params, m.MultiStatements = c.variables, c.multi
	real, err := gomysql.NewConnector(m)
	if err != nil {
		return nil, cdcerr.SinkURIInvalid.Wrap(err, "%s", c.cfg)
	}
	return real, nil
}

func openPool(c *connector) (*sql.DB, error) {
	if _, err := c.driver(); err != nil {
		return nil, err
	}
	return sql.OpenDB(c), nil
}

// use returns the connection, set up for writing.
func (s *session) use(ctx context.Context) (*sql.Conn, error) {
	if s.conn != nil {
		return s.conn, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.DialTimeout)
	defer cancel()
	conn, err := s.pool.Conn(ctx)
	if err != nil {
		return nil, s.unreachable(ctx, err)
	}
	if err := s.setUp(ctx, conn); err != nil {
		discard(conn)
		return nil, s.unreachable(ctx, err)
	}
	s.conn, s.used = conn, time.Now()
	return conn, nil
}

// idleLong is after how long without a statement a connection is asked whether it
// is there before something is begun on it: servers and proxies end those on which
// nothing happens, and to find that out in a transaction would be a failure to show.
const idleLong = 5 * time.Second

// fresh is use for whoever begins something.
func (s *session) fresh(ctx context.Context) (*sql.Conn, error) {
	if s.conn != nil && time.Since(s.used) > idleLong {
		if err := s.wake(ctx); err != nil {
			return nil, err
		}
	}
	return s.use(ctx)
}

func (s *session) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %v", s.cfg.DialTimeout)
	}
	if faultOf(err) == denied {
		return cdcerr.MySQLAccessDenied.Wrap(err, "%s", s.cfg)
	}
	if cdcerr.SinkURIInvalid.Is(err) {
		// Read once already: certificates that are being exchanged at this moment.
		return cdcerr.MySQLConnection.New("%s: %v", s.cfg, err)
	}
	return cdcerr.MySQLConnection.Wrap(err, "%s", s.cfg)
}

func (s *session) setUp(ctx context.Context, conn *sql.Conn) error {
	var version, comment string
	err := conn.QueryRowContext(ctx, "SELECT @@version, @@version_comment, @@max_allowed_packet").Scan(&version, &comment, &s.maxPacket)
	if err != nil {
		return fmt.Errorf("asking for the server's version: %w", err)
	}
	s.dialect = Detect(version, comment)
	s.dialect.NoVector = s.cfg.NoVector
	for _, set := range settings(s.dialect, s.strict, &s.cfg) {
		if _, err := conn.ExecContext(ctx, set.sql); err != nil && !(set.optional && isServerError(err)) {
			return fmt.Errorf("%s: %w", set.sql, err)
		}
	}
	return s.tryMulti(ctx, conn)
}

// tryMulti finds out whether several statements may be sent at once: not every
// proxy lets them pass.
func (s *session) tryMulti(ctx context.Context, conn *sql.Conn) error {
	s.multi = s.cfg.Multi && s.dialect.Kind != Other
	if !s.multi {
		return nil
	}
	_, err := conn.ExecContext(ctx, "SET @sluice_first = 1; SET @sluice_second = 2")
	if err == nil {
		return nil
	}
	s.multi = false
	if isServerError(err) && !isGone(err) {
		return nil
	}
	s.cfg.Multi = false // the next connection does without
	return fmt.Errorf("sending two statements at once: %w", err)
}

// wake makes sure that the connection is alive: a server may have closed it
// while nobody wrote, and a statement must not find that out when it may have run.
func (s *session) wake(ctx context.Context) error {
	conn, err := s.use(ctx)
	if err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, s.cfg.DialTimeout)
	defer cancel()
	if conn.PingContext(wait) == nil {
		return nil
	}
	s.lose()
	_, err = s.use(ctx)
	return err
}

// lose gives the connection up: what state it is in is not known.
func (s *session) lose() {
	if s.conn != nil {
		discard(s.conn)
		s.conn = nil
	}
}

// discard closes a connection instead of giving it back to the pool.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = conn.Close()
}

// abandon takes a failed transaction back. If the server cannot be asked to,
// it does so itself when it sees the connection gone.
func (s *session) abandon(conn *sql.Conn, cause error) {
	if !isGone(cause) {
		ctx, cancel := context.WithTimeout(context.Background(), s.cfg.DialTimeout)
		defer cancel()
		if _, err := conn.ExecContext(ctx, "ROLLBACK"); err == nil {
			return
		}
	}
	s.lose()
}

// guarded has what is compared at the fence compared before each statement until the
// answer is called, as far as the server takes several statements at once.
func (s *session) guarded(term uint64) (end func()) {
	if s.post.where != "" {
		s.guard = s.post.check(term) + ";"
	}
	return func() { s.guard = "" }
}

// exec runs a statement on the session, waiting for its answer for at most wait.
func (s *session) exec(ctx context.Context, wait time.Duration, text string) error {
	conn, err := s.use(ctx)
	if err != nil {
		return err
	}
	if s.multi {
		text = s.guard + text
	}
	until := ctx
	if wait > 0 {
		var cancel context.CancelFunc
		until, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	if _, err = conn.ExecContext(until, text); err == nil {
		s.used = time.Now()
	}
	return unanswered(ctx, wait, err)
}

// silence is a downstream that has not answered in time.
type silence struct {
	wait  time.Duration
	cause error
}

func (s silence) Error() string { return fmt.Sprintf("no answer within %v", s.wait) }

func (s silence) Unwrap() error { return s.cause }

// unanswered says of an error how long was waited, if the wait's end is what it is; ctx
// is that of whoever waits.
func unanswered(ctx context.Context, wait time.Duration, err error) error {
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return silence{wait, err}
	}
	return err
}
