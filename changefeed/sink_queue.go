package changefeed

// Kafka is the Kafka sink's; most keys are parameters of its URI too.
type Kafka struct {
	PartitionNum                 *int32              `toml:"partition-num" json:"partition_num,omitempty"`
	ReplicationFactor            *int16              `toml:"replication-factor" json:"replication_factor,omitempty"`
	KafkaVersion                 *string             `toml:"kafka-version" json:"kafka_version,omitempty"`
	MaxMessageBytes              *int                `toml:"max-message-bytes" json:"max_message_bytes,omitempty"`
	MaxRetry                     *int                `toml:"max-retry" json:"max_retry,omitempty"`
	Compression                  *string             `toml:"compression" json:"compression,omitempty"`
	KafkaClientID                *string             `toml:"kafka-client-id" json:"kafka_client_id,omitempty"`
	AutoCreateTopic              *bool               `toml:"auto-create-topic" json:"auto_create_topic,omitempty"`
	DialTimeout                  *Duration           `toml:"dial-timeout" json:"dial_timeout,omitempty"`
	WriteTimeout                 *Duration           `toml:"write-timeout" json:"write_timeout,omitempty"`
	ReadTimeout                  *Duration           `toml:"read-timeout" json:"read_timeout,omitempty"`
	RequiredAcks                 *int                `toml:"required-acks" json:"required_acks,omitempty"`
	SASLUser                     *string             `toml:"sasl-user" json:"sasl_user,omitempty"`
	SASLPassword                 *Secret             `toml:"sasl-password" json:"sasl_password,omitempty"`
	SASLMechanism                *string             `toml:"sasl-mechanism" json:"sasl_mechanism,omitempty"`
	SASLGSSAPIAuthType           *string             `toml:"sasl-gssapi-auth-type" json:"sasl_gssapi_auth_type,omitempty"`
	SASLGSSAPIKeytabPath         *string             `toml:"sasl-gssapi-keytab-path" json:"sasl_gssapi_keytab_path,omitempty"`
	SASLGSSAPIKerberosConfigPath *string             `toml:"sasl-gssapi-kerberos-config-path" json:"sasl_gssapi_kerberos_config_path,omitempty"`
	SASLGSSAPIServiceName        *string             `toml:"sasl-gssapi-service-name" json:"sasl_gssapi_service_name,omitempty"`
	SASLGSSAPIUser               *string             `toml:"sasl-gssapi-user" json:"sasl_gssapi_user,omitempty"`
	SASLGSSAPIPassword           *Secret             `toml:"sasl-gssapi-password" json:"sasl_gssapi_password,omitempty"`
	SASLGSSAPIRealm              *string             `toml:"sasl-gssapi-realm" json:"sasl_gssapi_realm,omitempty"`
	SASLGSSAPIDisablePAFXFAST    *bool               `toml:"sasl-gssapi-disable-pafxfast" json:"sasl_gssapi_disable_pafxfast,omitempty"`
	SASLOAuthClientID            *string             `toml:"sasl-oauth-client-id" json:"sasl_oauth_client_id,omitempty"`
	SASLOAuthClientSecret        *Secret             `toml:"sasl-oauth-client-secret" json:"sasl_oauth_client_secret,omitempty"`
	SASLOAuthTokenURL            *URI                `toml:"sasl-oauth-token-url" json:"sasl_oauth_token_url,omitempty"`
	SASLOAuthScopes              []string            `toml:"sasl-oauth-scopes" json:"sasl_oauth_scopes,omitempty"`
	SASLOAuthGrantType           *string             `toml:"sasl-oauth-grant-type" json:"sasl_oauth_grant_type,omitempty"`
	SASLOAuthAudience            *string             `toml:"sasl-oauth-audience" json:"sasl_oauth_audience,omitempty"`
	EnableTLS                    *bool               `toml:"enable-tls" json:"enable_tls,omitempty"`
	CA                           *string             `toml:"ca" json:"ca,omitempty"`
	Cert                         *string             `toml:"cert" json:"cert,omitempty"`
	Key                          *string             `toml:"key" json:"key,omitempty"`
	InsecureSkipVerify           *bool               `toml:"insecure-skip-verify" json:"insecure_skip_verify,omitempty"`
	CodecConfig                  *Codec              `toml:"codec-config" json:"codec_config,omitempty"`
	LargeMessageHandle           *LargeMessageHandle `toml:"large-message-handle" json:"large_message_handle,omitempty"`
	GlueSchemaRegistry           *Glue               `toml:"glue-schema-registry-config" json:"glue_schema_registry_config,omitempty"`
	OutputRawChangeEvent         *bool               `toml:"output-raw-change-event" json:"output_raw_change_event,omitempty"`
}

// Codec are parameters of message formats.
type Codec struct {
	EnableTiDBExtension            *bool   `toml:"enable-tidb-extension" json:"enable_tidb_extension,omitempty"`
	MaxBatchSize                   *int    `toml:"max-batch-size" json:"max_batch_size,omitempty"`
	AvroEnableWatermark            *bool   `toml:"avro-enable-watermark" json:"avro_enable_watermark,omitempty"`
	AvroDecimalHandlingMode        *string `toml:"avro-decimal-handling-mode" json:"avro_decimal_handling_mode,omitempty"`
	AvroBigintUnsignedHandlingMode *string `toml:"avro-bigint-unsigned-handling-mode" json:"avro_bigint_unsigned_handling_mode,omitempty"`
	AvroIncludeBeforeValue         *bool   `toml:"avro-include-before-value" json:"avro_include_before_value,omitempty"`
	EncodingFormat                 *string `toml:"encoding-format" json:"encoding_format,omitempty"`
	OutputRowKey                   *bool   `toml:"output-row-key" json:"output_row_key,omitempty"`
}

// LargeMessageHandle is what becomes of a message that is too large.
type LargeMessageHandle struct {
	Option               string `toml:"large-message-handle-option" json:"large_message_handle_option"`
	Compression          string `toml:"large-message-handle-compression" json:"large_message_handle_compression"`
	ClaimCheckStorageURI URI    `toml:"claim-check-storage-uri" json:"claim_check_storage_uri"`
	ClaimCheckRawValue   bool   `toml:"claim-check-raw-value" json:"claim_check_raw_value"`
}

// Glue is AWS's schema registry.
type Glue struct {
	RegistryName    string `toml:"registry-name" json:"registry_name"`
	Region          string `toml:"region" json:"region"`
	AccessKey       Secret `toml:"access-key" json:"access_key,omitempty"`
	SecretAccessKey Secret `toml:"secret-access-key" json:"secret_access_key,omitempty"`
	Token           Secret `toml:"token" json:"token,omitempty"`
}

// Pulsar is the Pulsar sink's. Its keys have dashes in JSON too.
type Pulsar struct {
	TLSKeyFilePath          *string   `toml:"tls-key-file-path" json:"tls-key-file-path,omitempty"`
	TLSCertificateFile      *string   `toml:"tls-certificate-file" json:"tls-certificate-file,omitempty"`
	TLSTrustCertsFilePath   *string   `toml:"tls-trust-certs-file-path" json:"tls-trust-certs-file-path,omitempty"`
	PulsarVersion           *string   `toml:"pulsar-version" json:"pulsar-version,omitempty"`
	PulsarProducerCacheSize *int32    `toml:"pulsar-producer-cache-size" json:"pulsar-producer-cache-size,omitempty"`
	CompressionType         *string   `toml:"compression-type" json:"compression-type,omitempty"`
	AuthenticationToken     *Secret   `toml:"authentication-token" json:"authentication-token,omitempty"`
	TokenFromFile           *string   `toml:"token-from-file" json:"token-from-file,omitempty"`
	BasicUserName           *string   `toml:"basic-user-name" json:"basic-user-name,omitempty"`
	BasicPassword           *Secret   `toml:"basic-password" json:"basic-password,omitempty"`
	AuthTLSCertificatePath  *string   `toml:"auth-tls-certificate-path" json:"auth-tls-certificate-path,omitempty"`
	AuthTLSPrivateKeyPath   *string   `toml:"auth-tls-private-key-path" json:"auth-tls-private-key-path,omitempty"`
	OAuth2                  *OAuth2   `toml:"oauth2" json:"oauth2,omitempty"`
	ConnectionTimeout       *Duration `toml:"connection-timeout" json:"connection-timeout,omitempty"`
	OperationTimeout        *Duration `toml:"operation-timeout" json:"operation-timeout,omitempty"`
	BatchingMaxMessages     *uint     `toml:"batching-max-messages" json:"batching-max-messages,omitempty"`
	BatchingMaxPublishDelay *Duration `toml:"batching-max-publish-delay" json:"batching-max-publish-delay,omitempty"`
	SendTimeout             *Duration `toml:"send-timeout" json:"send-timeout,omitempty"`
	OutputRawChangeEvent    *bool     `toml:"output-raw-change-event" json:"output-raw-change-event,omitempty"`
}

// OAuth2 is how Pulsar's clients show who they are.
type OAuth2 struct {
	IssuerURL  string `toml:"oauth2-issuer-url" json:"oauth2-issuer-url,omitempty"`
	Audience   string `toml:"oauth2-audience" json:"oauth2-audience,omitempty"`
	PrivateKey Secret `toml:"oauth2-private-key" json:"oauth2-private-key,omitempty"`
	ClientID   string `toml:"oauth2-client-id" json:"oauth2-client-id,omitempty"`
	Scope      string `toml:"oauth2-scope" json:"oauth2-scope,omitempty"`
}
