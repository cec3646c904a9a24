package objstore

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// Open makes a bucket of a URI:
//
//	file:///directory          local disk or NFS; also local:// and nfs://
//	s3://bucket/prefix         any S3: endpoint, region, access-key, secret-access-key,
//	                           session-token, force-path-style
//	gcs://bucket/prefix        also gs://: credentials-file, endpoint
//	azblob://container/prefix  also azure://: account-name, account-key, sas-token, endpoint
//	memory://                  one that lasts as long as the Bucket
//
// It asks nothing of the network: Probe does. A directory that is not there is made.
func Open(ctx context.Context, uri string) (Bucket, error) { return open(ctx, uri, false) }

// OpenReader is Open for who only reads: no directory is made, and it may be where nothing
// can be written.
func OpenReader(ctx context.Context, uri string) (Bucket, error) { return open(ctx, uri, true) }

func open(ctx context.Context, uri string, reading bool) (Bucket, error) {
	u, err := parse(uri)
	if err != nil {
		return nil, err
	}
	switch u.Scheme {
	case "file", "local", "nfs":
		return openFile(u, reading)
	case "s3":
		return openS3(u)
	case "gcs", "gs":
		return openGCS(ctx, u)
	case "azblob", "azure":
		return openAzure(u)
	case "memory":
		if err := u.only(); err != nil {
			return nil, err
		}
		return NewMemory(), nil
	}
	return nil, cdcerr.StorageURIInvalid.New("storage URI %s: the scheme %q is none of file, s3, gcs, azblob and memory", Masked(uri), u.Scheme)
}

// Probe writes an object, reads it, and removes it again when it could not be put a
// second time: a URI that leads nowhere, a right that is missing, a store that does not
// know If-None-Match shows before anything depends on it. The
// name must be one that nobody else uses at the moment.
func Probe(ctx context.Context, b Bucket, name string) error {
	content := []byte("written to see whether it can be; may be removed\n")
	if err := b.Put(ctx, name, content); err != nil {
		return err
	}
	if _, err := b.Get(ctx, name, 0, ToEnd); err != nil {
		return err
	}
	if _, err := All(ctx, b, name, ""); err != nil {
		return err
	}
	// A redo log's only condition: a store that passes over it lets two owners through.
	switch err := b.PutNew(ctx, name, content); {
	case err == nil:
		return errors.Join(cdcerr.StorageUnfit.New("%s: an object was put under a name that was taken, though it was to be put only if there is none", b), b.Delete(ctx, name))
	case !cdcerr.ObjectExists.Is(err):
		return errors.Join(err, b.Delete(ctx, name))
	}
	return b.Delete(ctx, name)
}

// location is a parsed URI: what is inside a bucket begins with prefix.
type location struct {
	*url.URL
	query  url.Values
	text   string // masked
	bucket string
	prefix string // empty, or ending in '/'
}

func parse(uri string) (*location, error) {
	u, err := url.Parse(uri)
	if err != nil {
		// The error of url.Parse quotes the URI, secrets and all.
		return nil, cdcerr.StorageURIInvalid.New("storage URI %s: it is no URI", Masked(uri))
	}
	l := &location{URL: u, text: Masked(uri), bucket: u.Host}
	if l.query, err = url.ParseQuery(u.RawQuery); err != nil {
		return nil, cdcerr.StorageURIInvalid.New("storage URI %s: its parameters cannot be read", l.text)
	}
	if u.User != nil {
		return nil, cdcerr.StorageURIInvalid.New("storage URI %s: a user and a password have no meaning here; secrets are parameters", l.text)
	}
	if prefix := strings.Trim(u.Path, "/"); prefix != "" {
		l.prefix = prefix + "/"
	}
	return l, nil
}

// only refuses parameters that nobody would read.
func (l *location) only(known ...string) error {
	for key, values := range l.query {
		if len(known) == 0 {
			return cdcerr.StorageURIInvalid.New("storage URI %s: the parameter %s has no meaning here, where there is none", l.text, key)
		}
		if !slices.Contains(known, key) {
			return cdcerr.StorageURIInvalid.New("storage URI %s: the parameter %s is none of %s", l.text, key, strings.Join(known, ", "))
		}
		if len(values) != 1 {
			return cdcerr.StorageURIInvalid.New("storage URI %s: the parameter %s is given more than once", l.text, key)
		}
	}
	return nil
}

// needBucket refuses a URI that names no bucket.
func (l *location) needBucket() error {
	if l.bucket == "" {
		return cdcerr.StorageURIInvalid.New("storage URI %s: no bucket; write %s://bucket/prefix", l.text, l.Scheme)
	}
	return nil
}

// shown are the parameters that are printed as they are. All others are masked:
// a secret under a misspelt key is a secret.
var shown = []string{"endpoint", "region", "force-path-style", "account-name", "credentials-file"}

// Masked is a URI without what must not be printed.
func Masked(uri string) string {
	head, query, ok := strings.Cut(uri, "?")
	if scheme, rest, found := strings.Cut(head, "://"); found {
		if at := strings.LastIndexByte(rest, '@'); at >= 0 {
			head = scheme + "://xxxxx@" + rest[at+1:]
		}
	}
	if !ok {
		return head
	}
	parts := strings.Split(query, "&")
	for i, part := range parts {
		key, _, _ := strings.Cut(part, "=")
		if !slices.Contains(shown, key) {
			parts[i] = key + "=xxxxx"
		}
	}
	return head + "?" + strings.Join(parts, "&")
}
