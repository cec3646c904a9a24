package objstore

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// azureTries is how often the client sends one request again, and azureWait what
// it waits before: whoever uses a bucket tries again anyway.
const (
	azureTries = 2
	azureWait  = 200 * time.Millisecond
)

// azure is a container of Azure's blob storage.
type azure struct {
	client   *container.Client
	prefix   string
	text     string
	carriage *http.Transport
}

func openAzure(l *location) (Bucket, error) {
	if err := errors.Join(l.needBucket(), l.only("endpoint", "account-name", "account-key", "sas-token")); err != nil {
		return nil, err
	}
	account := l.query.Get("account-name")
	if account == "" {
		account = os.Getenv("AZURE_STORAGE_ACCOUNT")
	}
	endpoint := strings.TrimSuffix(l.query.Get("endpoint"), "/")
	if endpoint == "" {
		if account == "" {
			return nil, cdcerr.StorageURIInvalid.New("storage URI %s: no account; give account-name or set AZURE_STORAGE_ACCOUNT", l.text)
		}
		endpoint = "https://" + account + ".blob.core.windows.net"
	}
	carriage := transport()
	opts := &container.ClientOptions{ClientOptions: azcore.ClientOptions{
		Retry:     policy.RetryOptions{MaxRetries: azureTries, RetryDelay: azureWait},
		Transport: &http.Client{Transport: carriage},
	}}
	client, err := l.azureClient(endpoint+"/"+l.bucket, account, opts)
	if err != nil {
		return nil, cdcerr.StorageURIInvalid.New("storage URI %s: %v", l.text, err)
	}
	return &azure{client: client, prefix: l.prefix, text: l.text, carriage: carriage}, nil
}

// azureClient takes the secret of the URI, else the account's key or the identity
// that the environment has.
func (l *location) azureClient(address, account string, opts *container.ClientOptions) (*container.Client, error) {
	if sas := strings.TrimPrefix(l.query.Get("sas-token"), "?"); sas != "" {
		return container.NewClientWithNoCredential(address+"?"+sas, opts)
	}
	key := l.query.Get("account-key")
	if key == "" {
		key = os.Getenv("AZURE_STORAGE_KEY")
	}
	if key != "" {
		shared, err := container.NewSharedKeyCredential(account, key)
		if err != nil {
			return nil, errors.New("the account's key is no base64")
		}
		return container.NewClientWithSharedKeyCredential(address, shared, opts)
	}
	identity, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		return nil, err
	}
	return container.NewClient(address, identity, opts)
}

// transport is that of Go, for one bucket: its connections end with it.
func transport() *http.Transport {
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		return unstalled(t.Clone(), pushMax, answerMax)
	}
	return unstalled(&http.Transport{Proxy: http.ProxyFromEnvironment}, pushMax, answerMax)
}

// wrap gives an error of the client its code.
func (b *azure) wrap(err error, name, what string) error {
	if err == nil {
		return nil
	}
	text := b.text + ": " + what + " " + name
	switch {
	case bloberror.HasCode(err, bloberror.BlobAlreadyExists, bloberror.ConditionNotMet):
		return exists(b, name)
	case bloberror.HasCode(err, bloberror.BlobNotFound):
		return notFound(b, name)
	case bloberror.HasCode(err, bloberror.ContainerNotFound, bloberror.ContainerBeingDeleted, bloberror.ContainerDisabled):
		return cdcerr.StorageGone.Wrap(err, "%s", text)
	case bloberror.HasCode(err, bloberror.AuthenticationFailed, bloberror.AuthorizationFailure, bloberror.AuthorizationPermissionMismatch, bloberror.InsufficientAccountPermissions):
		return cdcerr.StorageDenied.Wrap(err, "%s", text)
	}
	var answer *azcore.ResponseError
	if errors.As(err, &answer) && (answer.StatusCode == http.StatusForbidden || answer.StatusCode == http.StatusUnauthorized) {
		return cdcerr.StorageDenied.Wrap(err, "%s", text)
	}
	return cdcerr.StorageAPI.Wrap(err, "%s", text)
}

// Put implements Bucket.
func (b *azure) Put(ctx context.Context, name string, data []byte) error {
	return b.put(ctx, name, data, nil)
}

// PutNew implements Bucket.
func (b *azure) PutNew(ctx context.Context, name string, data []byte) error {
	any := azcore.ETagAny
	return b.put(ctx, name, data, &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: &any}})
}

func (b *azure) put(ctx context.Context, name string, data []byte, on *blob.AccessConditions) error {
	if err := ready(ctx, name); err != nil {
		return err
	}
	_, err := b.client.NewBlockBlobClient(b.prefix+name).Upload(ctx, body{bytes.NewReader(data)}, &blockblob.UploadOptions{AccessConditions: on})
	return b.wrap(err, name, "writing")
}

// body is a request's content: the client wants to close what it sends.
type body struct{ *bytes.Reader }

// Close implements io.Closer.
func (body) Close() error { return nil }

// Get implements Bucket.
func (b *azure) Get(ctx context.Context, name string, offset, length int64) ([]byte, error) {
	if err := ready(ctx, name); err != nil {
		return nil, err
	}
	if err := checkRange(name, offset, length); err != nil {
		return nil, err
	}
	part := blob.HTTPRange{Offset: offset} // a count of 0 is all
	if length != ToEnd {
		part.Count = max(1, length)
	}
	answer, err := b.client.NewBlobClient(b.prefix+name).DownloadStream(ctx, &blob.DownloadStreamOptions{Range: part})
	if bloberror.HasCode(err, bloberror.InvalidRange) {
		return nil, nil // the object ends before offset
	}
	if err != nil {
		return nil, b.wrap(err, name, "reading")
	}
	defer answer.Body.Close()
	size := int64(-1)
	if answer.ContentLength != nil {
		size = *answer.ContentLength
	}
	data, err := readBody(answer.Body, size, length)
	return data, b.wrap(err, name, "reading")
}

// List implements Bucket.
func (b *azure) List(ctx context.Context, prefix, after string, visit func(Object) error) error {
	whole := b.prefix + prefix
	pages := b.client.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: &whole})
	for pages.More() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return b.wrap(err, prefix, "listing")
		}
		if page.Segment == nil {
			continue
		}
		for _, o := range page.Segment.BlobItems {
			if o.Name == nil || o.Properties == nil || o.Properties.ContentLength == nil {
				return cdcerr.StorageAPI.New("%s: a listing with an entry that has no name or no size", b.text)
			}
			if name := (*o.Name)[len(b.prefix):]; name > after {
				if err := visit(Object{Name: name, Size: *o.Properties.ContentLength}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Delete implements Bucket.
func (b *azure) Delete(ctx context.Context, name string) error {
	if err := ready(ctx, name); err != nil {
		return err
	}
	_, err := b.client.NewBlobClient(b.prefix+name).Delete(ctx, nil)
	if err = b.wrap(err, name, "removing"); cdcerr.ObjectNotFound.Is(err) {
		return nil
	}
	return err
}

// String implements Bucket.
func (b *azure) String() string { return b.text }

// Close implements Bucket.
func (b *azure) Close() error {
	b.carriage.CloseIdleConnections()
	return nil
}
