{{- /* Variables of each role. Those that are no secret are checked before an upgrade, by `check.yaml`. */ -}}
{{- define "assay.env.api" -}}
{{- include "assay.environment" . | nindent 0 }}
- {name: ASSAY_REWARD__HOST, value: "0.0.0.0"}
- {name: ASSAY_REWARD__PROBE_PORT, value: "8477"}
- {name: ASSAY_REWARD__TENANTS_FILE, value: /etc/assay/tenants/tenants.json}
- {name: ASSAY_OPERATOR__TOKEN_FILE, value: /etc/assay/operator/token}
{{- with include "assay.operatorTlsEnvironment" . }}
{{- . | nindent 0 }}
{{- end }}
{{- if or (eq .Values.scaler "planner") (eq .Values.scaler "keda") }}
- {name: ASSAY_REWARD__PLANNER_ADDRESS, value: "{{ include "assay.fullname" . }}-planner:8473"}
{{- end }}
{{- if .Values.workerApi.keySecret }}
- {name: ASSAY_REWARD__WORKER_KEY_FILE, value: /etc/assay/workers/worker.keys}
{{- end }}
{{- if .Values.tls.existingSecret }}
- {name: ASSAY_REWARD__TLS_CERTIFICATE, value: /etc/assay/tls/tls.crt}
- {name: ASSAY_REWARD__TLS_KEY, value: /etc/assay/tls/tls.key}
{{- end }}
{{- end }}

{{- define "assay.env.rollout" -}}
{{- include "assay.settings" . | nindent 0 }}
- {name: ASSAY_ROLLOUT__HOST, value: "0.0.0.0"}
- {name: ASSAY_CUDA_CACHE, value: /var/lib/assay/cuda}
{{- if .Values.rollout.modelClaim }}
- {name: ASSAY_ROLLOUT__MODEL, value: {{ printf "/models/%s" .Values.rollout.modelPath | trimSuffix "/" | quote }}}
{{- else }}
- {name: ASSAY_ROLLOUT__ENGINE_URL, value: {{ .Values.rollout.engineUrl | quote }}}
- {name: ASSAY_ROLLOUT__ENGINE_DIALECT, value: {{ .Values.rollout.engineDialect | quote }}}
{{- with .Values.rollout.engineTokenSecret }}
- {name: ASSAY_ROLLOUT__ENGINE_TOKEN, valueFrom: {secretKeyRef: {name: {{ . | quote }}, key: token}}}
{{- end }}
{{- end }}
- {name: ASSAY_ROLLOUT__REWARD_URL, value: "{{ ternary "grpcs" "grpc" (ne .Values.tls.existingSecret "") }}://{{ include "assay.fullname" . }}-api:8470"}
- {name: ASSAY_REWARD__TENANTS_FILE, value: /etc/assay/tenants/tenants.json}
- {name: ASSAY_OPERATOR__TOKEN_FILE, value: /etc/assay/operator/token}
{{- with include "assay.operatorTlsEnvironment" . }}
{{- . | nindent 0 }}
{{- end }}
{{- if .Values.tls.existingSecret }}
- {name: ASSAY_ROLLOUT__TLS_CERTIFICATE, value: /etc/assay/tls/tls.crt}
- {name: ASSAY_ROLLOUT__TLS_KEY, value: /etc/assay/tls/tls.key}
- {name: GRPC_DEFAULT_SSL_ROOTS_FILE_PATH, value: /etc/assay/tls/ca.crt}
{{- end }}
{{- end }}

{{- /* Of a worker: (dict "root" $ "stage" NAME "worker" VALUES). */ -}}
{{- define "assay.env.worker" -}}
{{- if $.root.Values.workerApi.keySecret }}
{{- include "assay.settings" $.root | nindent 0 }}
- {name: ASSAY_WORKER__API, value: "{{ if $.root.Values.tls.existingSecret }}grpcs://{{ end }}{{ include "assay.fullname" $.root }}-api:8476"}
- {name: ASSAY_WORKER__API_TOKEN_FILE, value: /etc/assay/worker/token}
{{- if $.root.Values.tls.existingSecret }}
- {name: ASSAY_WORKER__API_CA, value: /etc/assay/tls/ca.crt}
{{- end }}
{{- else }}
{{- include "assay.environment" $.root | nindent 0 }}
{{- end }}
- {name: ASSAY_WORKER__STAGES, value: {{ list $.stage | toJson | quote }}}
- {name: ASSAY_WORKER__SLOTS, value: {{ $.worker.slotsPerPod | toString | quote }}}
- {name: ASSAY_WORKER__CONTROL_HOST, value: "0.0.0.0"}
- {name: ASSAY_WORKER__HTTP_PORT, value: "8475"}
- {name: ASSAY_WORKER__DRAIN_S, value: {{ max 1 (sub (int $.worker.terminationGracePeriodSeconds) 10) | toString | quote }}}
- name: ASSAY_OPERATOR__TOKENS
  valueFrom: {secretKeyRef: {name: {{ include "assay.operatorSecret" $.root | quote }}, key: tokens.json}}
{{- with include "assay.operatorTlsEnvironment" $.root }}
{{- . | nindent 0 }}
{{- end }}
{{- end }}

{{- define "assay.env.planner" -}}
{{- $deployments := dict }}{{ $warm := dict }}{{ $min := dict }}{{ $max := dict }}{{ $slots := dict }}
{{- range $stage, $worker := (include "assay.stages" . | fromJson) }}
{{- if $worker.warmPool }}
{{- $_ := set $warm $stage $worker.warmPool }}
{{- else }}
{{- $_ := set $deployments $stage (include "assay.workerName" (dict "root" $ "stage" $stage)) }}
{{- end }}
{{- $_ := set $min $stage (int $worker.slotsMin) }}
{{- $_ := set $max $stage (int $worker.slotsMax) }}
{{- $_ := set $slots $stage (int $worker.slotsPerPod) }}
{{- end }}
{{- $most := 256 }}{{ range $max }}{{ $most = max $most . }}{{ end }}
{{- include "assay.environment" . | nindent 0 }}
- {name: XDG_CACHE_HOME, value: /var/lib/assay/cache} # machine code; the root is read-only
- {name: ASSAY_PLANNER__HOST, value: "0.0.0.0"}
- {name: ASSAY_PLANNER__HTTP_PORT, value: "8475"}
- {name: ASSAY_PLANNER__SCALER, value: {{ ternary "keda" "kubernetes" (eq .Values.scaler "keda") }}}
- {name: ASSAY_PLANNER__KUBERNETES__NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
- name: ASSAY_PLANNER__KUBERNETES__SELECTOR
  value: app.kubernetes.io/name={{ include "assay.name" . }},app.kubernetes.io/instance={{ .Release.Name }},app.kubernetes.io/component=worker
- {name: ASSAY_PLANNER__KUBERNETES__DEPLOYMENTS, value: {{ $deployments | toJson | quote }}}
{{- if $warm }}
- {name: ASSAY_PLANNER__KUBERNETES__WARM_POOLS, value: {{ $warm | toJson | quote }}}
{{- end }}
- {name: ASSAY_PLANNER__KUBERNETES__SLOTS_PER_POD_BY_STAGE, value: {{ $slots | toJson | quote }}}
- {name: ASSAY_PLANNER__SLOTS_MIN_BY_STAGE, value: {{ $min | toJson | quote }}}
- {name: ASSAY_PLANNER__SLOTS_MAX_BY_STAGE, value: {{ $max | toJson | quote }}}
- {name: ASSAY_WORKER__SLOTS_MAX, value: {{ $most | toString | quote }}}
- {name: ASSAY_OPERATOR__TOKEN_FILE, value: /etc/assay/operator/token}
{{- with include "assay.operatorTlsEnvironment" . }}
{{- . | nindent 0 }}
{{- end }}
{{- if eq .Values.scaler "keda" }}
- {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
- {name: ASSAY_PLANNER__KUBERNETES__KEDA_ADDRESS, value: "$(POD_IP):8474"}
{{- if .Values.keda.tlsSecret }}
- {name: ASSAY_PLANNER__KUBERNETES__KEDA_SERVER_NAME, value: {{ printf "%s-planner.%s" (include "assay.fullname" .) .Release.Namespace }}}
- {name: ASSAY_PLANNER__KUBERNETES__TLS_CERTIFICATE, value: /etc/assay/keda/tls.crt}
- {name: ASSAY_PLANNER__KUBERNETES__TLS_KEY, value: /etc/assay/keda/tls.key}
- {name: ASSAY_PLANNER__KUBERNETES__TLS_CLIENT_CA, value: /etc/assay/keda/ca.crt}
{{- else }}
- {name: ASSAY_PLANNER__KUBERNETES__KEDA_OPEN, value: "true"}
{{- end }}
{{- end }}
{{- end }}
