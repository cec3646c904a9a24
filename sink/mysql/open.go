package mysql

import (
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"strconv"
	"unicode/utf8"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// connect opens the first connection, at once or not at all. A server or proxy
// that ends a connection for several statements at once is asked again without. A
// password that is refused as it stands is tried as base64, as TiCDC does; if that
// is refused as well the first answer counts.
func (s *Sink) connect(ctx context.Context) error {
	err := s.connectAs(ctx)
	if !cdcerr.MySQLAccessDenied.Is(err) {
		return err
	}
	plain, ok := fromBase64(s.cfg.Password)
	if !ok {
		return err
	}
	given, was, session := s.cfg.Password, s.pool, s.session
	s.cfg.Password = plain
	pool, badly := openPool(&connector{cfg: s.cfg, multi: s.cfg.Multi})
	if badly != nil {
		return badly
	}
	s.pool, s.session = pool, newSession(s.cfg, pool)
	if again := s.connectAs(ctx); again != nil {
		_ = pool.Close() // nothing of it is used
		s.cfg.Password, s.pool, s.session = given, was, session
		if cdcerr.MySQLAccessDenied.Is(again) {
			return err
		}
		return again
	}
	return was.Close()
}

func (s *Sink) connectAs(ctx context.Context) error {
	_, err := s.session.use(ctx)
	if err != nil && s.cfg.Multi && !s.session.cfg.Multi {
		_, err = s.session.use(ctx)
	}
	return err
}

// fromBase64 is what a password stands for if it is base64.
func fromBase64(p Secret) (Secret, bool) {
	raw, err := base64.StdEncoding.DecodeString(p.Reveal())
	return Secret(raw), err == nil && len(raw) > 0 && utf8.Valid(raw)
}

// apart refuses a downstream that is the upstream: every row would come back as a
// change, for ever. Only a TiDB says which cluster it is, and only from some version
// on: where it does not, nothing is known and nothing refused.
func (s *Sink) apart(ctx context.Context) error {
	if s.cfg.Upstream == 0 || s.Dialect().Kind != TiDB {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.DialTimeout)
	defer cancel()
	conn, err := s.session.use(ctx)
	if err != nil {
		return err
	}
	var id string
	err = conn.QueryRowContext(ctx, "SELECT variable_value FROM mysql.tidb WHERE variable_name = 'cluster_id'").Scan(&id)
	switch {
	case errors.Is(err, sql.ErrNoRows), isServerError(err):
		s.log.Info("whether the downstream is the upstream is not known: it does not say which cluster it is", "error", err)
		return nil
	case err != nil:
		return coded(err, "asking for the cluster's id")
	case id == strconv.FormatUint(s.cfg.Upstream, 10):
		return cdcerr.SameUpstreamDownstream.New("%s is the cluster %s, which the changefeed reads", s.cfg, id)
	}
	return nil
}
