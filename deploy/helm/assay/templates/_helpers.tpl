{{- /* Cut to what leaves room for the ends of names; a Service's has no dot, a release's may. */ -}}
{{- define "assay.cut" -}}
{{ . | replace "." "-" | trunc 40 | trimAll "-" }}
{{- end }}

{{- define "assay.name" -}}
{{ include "assay.cut" (default .Chart.Name .Values.nameOverride) }}
{{- end }}

{{- /* A release may begin with a digit; the name of a Service may not on Kubernetes 1.34. */ -}}
{{- define "assay.fullname" -}}
{{- $release := ternary (printf "r%s" .Release.Name) .Release.Name (regexMatch "^[0-9]" .Release.Name) -}}
{{- if .Values.fullnameOverride }}{{ include "assay.cut" .Values.fullnameOverride }}
{{- else if contains .Chart.Name .Release.Name }}{{ include "assay.cut" $release }}
{{- else }}{{ include "assay.cut" (printf "%s-%s" $release (include "assay.name" .)) }}{{ end }}
{{- end }}

{{- /* The labels by which pods are selected: (dict "root" $ "component" "api"). */ -}}
{{- define "assay.selector" -}}
app.kubernetes.io/name: {{ include "assay.name" .root | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "assay.labels" -}}
{{ include "assay.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "assay.image" -}}
{{- $image := .root.Values.image -}}
{{- $digest := get $image.digests .role -}}
{{- if $digest }}{{ printf "%s/%s@%s" $image.repository .role $digest }}
{{- else }}{{ printf "%s/%s:%s" $image.repository .role (default .root.Chart.AppVersion $image.tag) }}{{ end }}
{{- end }}

{{- define "assay.operatorSecret" -}}
{{ default (printf "%s-operator" (include "assay.fullname" .)) .Values.operator.existingSecret }}
{{- end }}
{{- /* TLS of the operator's ports, at both ends: variables, mount and volume of a pod. */ -}}
{{- define "assay.operatorTlsEnvironment" -}}
{{- if .Values.operator.tlsSecret -}}
- {name: ASSAY_OPERATOR__TLS_CERTIFICATE, value: /etc/assay/operator-tls/tls.crt}
- {name: ASSAY_OPERATOR__TLS_KEY, value: /etc/assay/operator-tls/tls.key}
- {name: ASSAY_OPERATOR__TLS_CLIENT_CA, value: /etc/assay/operator-tls/ca.crt}
- {name: ASSAY_OPERATOR__TLS_CA, value: /etc/assay/operator-tls/ca.crt}
- name: ASSAY_OPERATOR__TLS_SERVER_NAME
  value: {{ required "operator.tlsServerName: a name in the certificate, as pods are called by their address" .Values.operator.tlsServerName | quote }}
{{- end }}
{{- end }}
{{- define "assay.operatorTlsMount" -}}
{{- if .Values.operator.tlsSecret -}}
- {name: operator-tls, mountPath: /etc/assay/operator-tls, readOnly: true}
{{- end }}
{{- end }}
{{- define "assay.operatorTlsVolume" -}}
{{- if .Values.operator.tlsSecret -}}
- name: operator-tls
  secret:
    secretName: {{ .Values.operator.tlsSecret | quote }}
    items: [{key: ca.crt, path: ca.crt}, {key: tls.crt, path: tls.crt}, {key: tls.key, path: tls.key}]
{{- end }}
{{- end }}
{{- define "assay.operatorScheme" -}}{{ ternary "HTTPS" "HTTP" (ne .Values.operator.tlsSecret "") }}{{- end }}

{{- define "assay.tenantsSecret" -}}
{{ default (printf "%s-tenants" (include "assay.fullname" .)) .Values.tenants.existingSecret }}
{{- end }}
{{- /* The token with which `helm test` calls; empty: nothing is tested. */ -}}
{{- define "assay.testSecret" -}}
{{- if has "math" .Values.pipelines -}}
{{- if .Values.tenants.testSecret }}{{ .Values.tenants.testSecret }}
{{- else if not .Values.tenants.existingSecret }}{{ include "assay.tenantsSecret" . }}{{ end -}}
{{- end -}}
{{- end }}
{{- define "assay.storeSecret" -}}
{{ default (printf "%s-store" (include "assay.fullname" .)) .Values.store.existingSecret }}
{{- end }}

{{- define "assay.dashed" -}}{{ . | replace "." "-" | replace "_" "-" | lower }}{{- end }}
{{- define "assay.workerName" -}}
{{ printf "%s-%s" (include "assay.fullname" .root) (include "assay.dashed" .stage) | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* Components that work on the store. */ -}}
{{- define "assay.onStore" -}}
{{ ternary (list "api" "planner") (list "api" "planner" "worker") (ne .Values.workerApi.keySecret "") | toJson }}
{{- end }}

{{- /* The stages of the chosen pipelines with their settings, as JSON. */ -}}
{{- define "assay.stages" -}}
{{- $known := .Files.Get "files/stages.json" | fromJson -}}
{{- $found := dict -}}
{{- range $pipeline := .Values.pipelines }}
{{- range $stage := (get $known.pipelines $pipeline) }}
{{- $own := default dict (get $.Values.workers.stages $stage) -}}
{{- $needs := get $known.stages $stage -}}
{{- $worker := mergeOverwrite (deepCopy (omit $.Values.workers "stages")) (deepCopy (omit $own "resources")) -}}
{{- if and (not $needs.foreignCode) (not $own.isolation) }}{{ $_ := set $worker "isolation" "hardened" }}{{ end -}}
{{- $slots := int $worker.slotsPerPod -}}
{{- if gt (int $worker.slotsMin) (int $worker.slotsMax) }}{{ fail (printf "workers, stage %s: slotsMin (%d) is above slotsMax (%d)" $stage (int $worker.slotsMin) (int $worker.slotsMax)) }}{{ end -}}
{{- $memory := printf "%dMi" (add 256 (mul $slots (int $needs.memoryMiB))) -}}
{{- $limits := dict "memory" $memory -}}
{{- if $needs.gpu }}{{ $_ := set $limits "nvidia.com/gpu" (mul $slots (int $needs.gpu)) }}{{ end -}}
{{- $shape := dict "requests" (dict "cpu" (printf "%dm" (mul $slots (int $needs.cpuMillis))) "memory" $memory) "limits" $limits -}}
{{- $_ := set $worker "resources" (default $shape $own.resources) -}}
{{- $_ := set $found $stage $worker -}}
{{- end }}{{- end }}
{{- range $stage, $own := .Values.workers.stages }}
{{- if not (hasKey $found $stage) }}{{ fail (printf "workers.stages.%s: no chosen pipeline has this stage" $stage) }}{{ end }}
{{- end }}
{{- $found | toJson -}}
{{- end }}

{{- /* Environment of every service that works on the store: settings, store, data directory. */ -}}
{{- define "assay.environment" -}}
- name: ASSAY_STORE__URL
  valueFrom: {secretKeyRef: {name: {{ include "assay.storeSecret" . | quote }}, key: url}}
{{ include "assay.settings" . }}
{{- end }}

{{- define "assay.settings" -}}
- {name: ASSAY_DATA_DIR, value: /var/lib/assay}
{{- range $name, $value := .Values.settings }}
- name: ASSAY_{{ $name | replace "." "__" | upper }}
  value: {{ if or (kindIs "map" $value) (kindIs "slice" $value) }}{{ $value | toJson | quote }}{{ else if kindIs "float64" $value }}{{ $value | toJson | quote }}{{ else }}{{ $value | toString | quote }}{{ end }}
{{- end }}
{{- end }}

{{- define "assay.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "assay.podRestricted" -}}
runAsNonRoot: true
runAsUser: 64000
runAsGroup: 64000
fsGroup: 64000
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "assay.pull" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- end }}

{{- define "assay.placement" -}}
{{- with .at.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .at.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- include "assay.pull" .root }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "assay.selector" . | nindent 8 }}
{{- end }}
