package store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// codes are the error codes of S3 (API reference, "Error responses") that mean something to a caller or to a person.
var codes = map[string]error{
	"NoSuchKey": ErrNotFound, "NotFound": ErrNotFound, "NoSuchUpload": ErrNotFound, "PreconditionFailed": ErrExists,
	"NoSuchBucket": ErrNoBucket,
	"AccessDenied": ErrDenied, "InvalidAccessKeyId": ErrDenied, "SignatureDoesNotMatch": ErrDenied, "ExpiredToken": ErrDenied,
	"InvalidToken": ErrDenied, "AllAccessDisabled": ErrDenied, "AccountProblem": ErrDenied, "KMS.AccessDeniedException": ErrDenied,
	"KMS.NotFoundException": ErrDenied, "KMS.DisabledException": ErrDenied, "PermanentRedirect": ErrDenied, "AuthorizationHeaderMalformed": ErrDenied,
	// The last two are what stores other than AWS say.
	"EntityTooLarge": ErrFull, "QuotaExceeded": ErrFull, "XMinioStorageFull": ErrFull,
	"SlowDown": ErrUnavailable, "ServiceUnavailable": ErrUnavailable, "InternalError": ErrUnavailable, "RequestTimeout": ErrUnavailable,
	"Throttling": ErrUnavailable, "ThrottlingException": ErrUnavailable, "OperationAborted": ErrUnavailable,
	// Another conditional write of the same key is under way: S3 asks for a new upload (API reference, CompleteMultipartUpload).
	"ConditionalRequestConflict": ErrUnavailable,
}

func classOf(code string) error {
	if class, ok := codes[code]; ok {
		return class
	}
	return errors.New("S3 refused it")
}

// explain gives an error of the SDK its meaning, without request ids, which would differ at every attempt.
func (s *S3) explain(ctx context.Context, what, key string, err error) error {
	if err == nil {
		return nil
	}
	what += " " + s.URL(key)
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("%s: %w", what, cause)
	}
	var (
		coded       smithy.APIError
		response    *smithyhttp.ResponseError
		network     net.Error
		certificate *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &coded) && codes[coded.ErrorCode()] != nil:
		return fmt.Errorf("%s: %w (%s)", what, codes[coded.ErrorCode()], coded.ErrorCode())
	case errors.As(err, &certificate):
		return fmt.Errorf("%s: %w: its certificate is not accepted (%s); set caBundle beside endpoint if its authority is your own", what, ErrUnavailable, innermost(certificate))
	case errors.As(err, &response) && response.HTTPStatusCode() != 0:
		status := response.HTTPStatusCode()
		name := http.StatusText(status)
		if coded != nil && coded.ErrorCode() != "" {
			name = coded.ErrorCode() + ": " + coded.ErrorMessage()
		}
		switch {
		case status == http.StatusForbidden, status == http.StatusUnauthorized, status == http.StatusMovedPermanently:
			return fmt.Errorf("%s: %w (%s)", what, ErrDenied, name)
		case status == http.StatusNotFound:
			return fmt.Errorf("%s: %w (%s)", what, ErrNotFound, name)
		case status == http.StatusInsufficientStorage:
			return fmt.Errorf("%s: %w (%s)", what, ErrFull, name)
		case status >= http.StatusInternalServerError, status == http.StatusTooManyRequests:
			return fmt.Errorf("%s: %w (%s)", what, ErrUnavailable, name)
		}
		return fmt.Errorf("%s: S3 refused it (%d %s)", what, status, name)
	case errors.As(err, &response), errors.As(err, &network):
		return fmt.Errorf("%s: %w (%s)", what, ErrUnavailable, innermost(err))
	}
	return fmt.Errorf("%s: %w", what, err)
}

// innermost returns what went wrong in the network, without addresses and ports, which differ at every attempt.
func innermost(err error) string {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err.Error()
}
