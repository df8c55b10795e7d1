package dump

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

const (
	// uploadVariable makes this program the upload; it holds a place in JSON.
	uploadVariable = "NAIROBI_BENCH_UPLOAD"
	// accessKey is what moto takes for a key and for its secret.
	accessKey = "lab"
)

// place is where the dump by hand goes.
type place struct{ Endpoint, Bucket, Key string }

func api(endpoint string) *s3.Client {
	return s3.New(s3.Options{Region: region, BaseEndpoint: aws.String(endpoint), UsePathStyle: true, Credentials: credentials.NewStaticCredentialsProvider(accessKey, accessKey, "")})
}

// upload stores what r gives, with the transfer manager's own defaults.
func upload(ctx context.Context, target string, r io.Reader) error {
	var to place
	if err := json.Unmarshal([]byte(target), &to); err != nil {
		return fmt.Errorf("read where to: %w", err)
	}
	_, err := transfermanager.New(api(to.Endpoint)).UploadObject(ctx, &transfermanager.UploadObjectInput{Bucket: &to.Bucket, Key: &to.Key, Body: struct{ io.Reader }{r}}) // a pipe cannot seek
	return err
}

// byHand runs mysqldump | zstd | upload and returns how long that took.
func byHand(ctx context.Context, mysqldump *exec.Cmd, level int, to place) (time.Duration, error) {
	target, err := json.Marshal(to)
	if err != nil {
		return 0, fmt.Errorf("say where to: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("find this program: %w", err)
	}
	uploads := exec.CommandContext(ctx, self)
	uploads.Env = append(os.Environ(), uploadVariable+"="+string(target))
	began := time.Now()
	err = pipe(mysqldump, exec.CommandContext(ctx, "zstd", "-"+strconv.Itoa(level), "--quiet", "--stdout"), uploads)
	return time.Since(began), err
}

// pipe runs commands as a shell's pipe does, and waits for all of them.
func pipe(commands ...*exec.Cmd) error {
	var open []*os.File // what this process must not keep open, or nobody would see an end
	var failures []error
	complaints := make([]strings.Builder, len(commands))
	started := 0
	for i, c := range commands {
		c.Stderr = &complaints[i]
		if i > 0 {
			r, w, err := os.Pipe()
			if err != nil {
				failures = append(failures, err)
				break
			}
			open = append(open, r, w)
			commands[i-1].Stdout, c.Stdin = w, r
		}
	}
	for _, c := range commands {
		if len(failures) > 0 {
			break
		}
		if err := c.Start(); err != nil {
			failures = append(failures, fmt.Errorf("start %s: %w", c.Path, err))
			break
		}
		started++
	}
	for _, f := range open {
		f.Close()
	}
	for i, c := range commands[:started] {
		if err := c.Wait(); err != nil {
			failures = append(failures, fmt.Errorf("%s: %w: %s", c.Path, err, strings.TrimSpace(complaints[i].String())))
		}
	}
	return errors.Join(failures...)
}
