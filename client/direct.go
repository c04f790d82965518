package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/internal/redisconn"
	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/backends"
)

// database is the named Redis database of tasks and workers.
const database = "main"

// RedisOptions say where Redis is and how tasks are kept there.
type RedisOptions struct {
	// URL is redis://, rediss:// (TLS) or unix:// with an optional database
	// number, redis+sentinel://host,host/master or redis+cluster://host,host.
	URL string

	// Username and one of Password and PasswordFile are shown to the server;
	// the file is read for each connection, so that it may be replaced.
	Username     string
	Password     string
	PasswordFile string

	// CAFile has the certificates that sign the server's, with rediss://.
	// Empty: those of the system. CertFile and KeyFile are for servers that
	// ask for a certificate.
	CAFile, CertFile, KeyFile string

	// Prefix starts the names of all keys; as the agents have it.
	Prefix string

	// MaxRetries is how often a task is queued again when its submission does
	// not say. 0 means 3, a negative value none.
	MaxRetries int

	// ResultTTL is how long results can be read. 0 means 1h.
	ResultTTL time.Duration

	// WaitReplicas is how many replicas have to confirm a submitted task, 0 to
	// 10, within WaitTimeout (0 means 1s; at most 5s). When fewer do, Submit
	// answers queue.ErrUnreplicated, and the task is stored all the same.
	WaitReplicas int
	WaitTimeout  time.Duration

	// Log gets what happens to the connections. Nil: nothing is logged.
	Log *zap.Logger
}

// Connect returns a client on Redis itself. It makes one round trip, so that a
// wrong address or password shows at once; later outages are ErrTryLater and
// pass. Close it after use.
func Connect(ctx context.Context, o RedisOptions) (*Client, error) {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	m, err := redisconn.New(redisconn.Config{
		URL: o.URL, Username: o.Username, Password: o.Password, PasswordFile: o.PasswordFile, Prefix: o.Prefix,
		TLS:          redisconn.TLSConfig{CAFile: o.CAFile, CertFile: o.CertFile, KeyFile: o.KeyFile},
		WaitReplicas: o.WaitReplicas, WaitTimeout: o.WaitTimeout,
	}, o.Log, nil)
	if err != nil {
		return nil, err
	}
	d, err := newDirect(m, o)
	if err == nil {
		_, err = d.Backend.Ping(ctx)
	}
	if err != nil {
		_ = m.Close()
		if redisconn.IsWait(err) {
			return nil, fmt.Errorf("redis at %s is %w: %w", m.Address(), ErrUnreachable, err)
		}
		return nil, fmt.Errorf("connect to Redis at %s: %w", m.Address(), err)
	}
	return &Client{link: d, queue: d}, nil
}

// direct is the queue in Redis, behind the circuit breaker.
type direct struct {
	queue.Backend
	manager *redisconn.Manager
	acting  queue.Backend // the same without breaker, for the monitor
	log     *zap.Logger
}

func newDirect(m *redisconn.Manager, o RedisOptions) (*direct, error) {
	guarded, err := m.Guarded(database)
	if err != nil {
		return nil, err
	}
	free, err := m.Client(database)
	if err != nil {
		return nil, err
	}
	layout := backends.Options{Prefix: m.Prefix(), MaxRetries: o.MaxRetries, ResultTTL: o.ResultTTL,
		WaitReplicas: o.WaitReplicas, WaitTimeout: o.WaitTimeout}
	serving, err := backends.Open(backends.List, guarded, layout)
	if err != nil {
		return nil, err
	}
	acting, err := backends.Open(backends.List, free, layout)
	if err != nil {
		return nil, err
	}
	return &direct{Backend: serving, manager: m, acting: acting, log: o.Log}, nil
}

func (d *direct) close() error { return d.manager.Close() }

// Cordon drains a worker that is known: a typing error must not drain nobody
// and say ok.
func (d *direct) Cordon(ctx context.Context, worker string) error {
	if _, err := d.Backend.Worker(ctx, worker); err != nil {
		return err
	}
	return d.Backend.Cordon(ctx, worker)
}

func (d *direct) submitJSON(context.Context, []json.RawMessage) ([]queue.Receipt, error) {
	return nil, fmt.Errorf("submit JSON without a control plane: %w (it is what checks the texts: use Dial, or Submit)", ErrUnsupported)
}

func (d *direct) scan(context.Context) (ScanReport, error) {
	return ScanReport{}, fmt.Errorf("scan for dead workers: %w (no monitor runs in this process: call StartMonitor, or use Dial)", ErrUnsupported)
}

func (d *direct) artifact(context.Context, string) (io.ReadCloser, error) {
	return nil, fmt.Errorf("read an artifact: %w (the control plane keeps them: use Dial)", ErrUnsupported)
}

func (d *direct) putArtifact(context.Context, upload) error {
	return fmt.Errorf("upload a file: %w (the control plane keeps artifacts: use Dial)", ErrUnsupported)
}

// retryAll reads the ids first: retrying takes tasks out of the list that the
// cursor walks.
func (d *direct) retryAll(ctx context.Context, f queue.Filter, dryRun bool) (RetryReport, error) {
	limit := f.Limit
	f.Limit, f.Cursor = 0, ""
	if f == (queue.Filter{}) {
		return RetryReport{}, &queue.InvalidError{Field: "filter", Rule: "needs at least one of status, type, worker, queue and code: it selects what is retried"}
	}
	if f.Status == "" {
		f.Status = queue.StatusFailedPermanent
	}
	if f.Status != queue.StatusFailedPermanent && f.Status != queue.StatusCancelled {
		return RetryReport{}, &queue.InvalidError{Field: "status", Rule: "must be failed_permanent or cancelled, got " + string(f.Status)}
	}
	if limit == 0 {
		limit = 100
	}
	f.Limit = min(max(limit, 1), 1000)
	report := RetryReport{DryRun: dryRun, Retried: []string{}}
	var ids []string
	for t, err := range (&Client{queue: d}).List(ctx, f) {
		if err != nil {
			return report, fmt.Errorf("select tasks to retry: %w", err)
		}
		ids = append(ids, t.ID)
	}
	for _, id := range ids {
		if dryRun {
			report.Retried = append(report.Retried, id)
			continue
		}
		err := d.Retry(ctx, id)
		switch {
		case err == nil:
			report.Retried = append(report.Retried, id)
		case errors.Is(err, queue.ErrConflict), errors.Is(err, queue.ErrNotFound):
			if report.Refused == nil {
				report.Refused = map[string]string{}
			}
			report.Refused[id] = err.Error()
		default:
			return report, err
		}
	}
	return report, nil
}
