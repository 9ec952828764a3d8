-- Shared by the scripts that move requests; put in place of their `--@include requests.lua` line.
-- Each call creates all functions of its script, so a script includes only the parts it needs:
-- shares.lua, worker_time.lua, task_use.lua, new_tasks.lua, new_jobs.lua, gathering.lua, letters.lua, ends.lua, settling.lua,
-- opening.lua and accepting.lua, in this order.
--
-- One hash tag per shard: KEYS[1] is the prefix `assay:{<shard>}:`, every key below begins with it,
-- so all are in one slot. A batch is called `<tenant>:<batch>` (<uid>), a request `%016d` (<job>).
--
--   t:<tenant>:<task>  HASH    rec  n (its number)  first (stage)  gathers (stage, if any)  batches (opened so far)
--                              kept (ms after its last use)  done (batches with requests)
--                              until, refreshed (ms: see `use_task`)
--                              span0 ... span4 (ns: `natural` of the last five of them)
--   tt:<tenant>        ZSET    its tasks -> when they are forgotten (ms)
--   h:<tenant>:<task>  LIST    finished batches, newest first; each packed for the planner
--   b:<uid>            HASH    tenant batch task tn first state closing size k opened deadline
--                              completed (us) submitted ended running o:<OUTCOME>
--                              overdue kept (ms) history (batches) number (of its task's batches)
--                              rank (us: orders its requests in place of the deadline; 0 = none)
--                              weight (the tenant's; absent = 1)
--                              results_max (kept of the tenant's completed batches)
--                              grouped (requests of the groups in the log)  shift (sum over
--                              them, in millionths: see `zero_shift`)
--                              risk (0 | 1)  natural (ns: arrival + services of those ended, most)
--                              gathers (the stage that judges whole groups, if one does; their keys:
--                              gathering.lua)
--                              reserved ('<requests> <bytes>' of the tenant's quota that were taken
--                              for requests to come)
--   d:<uid>            HASH    request id -> digest of its content
--   gs:<uid>           HASH    group id -> requests submitted
--   g:<uid>            HASH    group id -> "<ended> <told> <reward>,<reward>,..."
--   gp:<uid>           SET     groups whose requests have all ended, told when the batch is sealed
--   r:<uid>            LIST    the log: results and groups; the index is the cursor
--   pl:<uid>           LIST    plans, oldest first
--   hb:<uid>           STRING  packed history of the requests, until the batch is complete
--   live:<uid>         SET     jobs that have not ended
--   dead:<uid>         SET     jobs that are dead letters
--   j:<job>            HASH    S what never changes, packed [request id, group id or '', payload
--                              bytes, hashes of large parts]; D what does, see `read_job`;
--                              m timings and v services of the stages gone, packed
--   p:<job>            STRING  packed [response, reference] or [response, reference, messages,
--                              artifacts ..., their names]: bytes, or the hash of a large part
--   o:<job>            STRING  hand-over of the previous stage
--   staged             ZSET    '<first job> <count>' of jobs that no batch has yet -> when they are
--                              dropped (ms)
--   q:<stage>:<tenant> ZSET    job -> deadline or rank of its batch (ms): EBF, then arrival by the
--                              name
--   s:<stage>          ZSET    tenant with waiting jobs -> its virtual time (us): the smallest is
--                              served; -1 while it waits alone and `sv` does not exist; exists while
--                              the stage has work
--   sv:<stage>         HASH    since (fence after which tenants are charged)  now (virtual time, us);
--                              from when a second tenant waits until none does
--   sd:<stage>         ZSET    tenant without waiting jobs -> its virtual time, if ahead of `now`
--   cost:<stage>       HASH    tenant, '' = all -> expected cost of a request (us)
--   q:<stage>          ZSET    of the layout before tenants had queues; `reap` moves its jobs
--   held:<uid>         ZSET    job -> its place in the queue: accepted, not yet in it
--   holding            ZSET    uid -> since when some of its jobs are held (ms)
--   l:<stage>          ZSET    job -> expiry of its lease (ms)
--   m:<stage>          ZSET    {"0": 0} while the queue may hold work: what idle workers wait on
--   dlq:<stage>        ZSET    job -> when it died (ms)
--   dlq:<stage>:<tenant>  ZSET  the tenant's of those
--   dlqs               SET     stages that have dead letters
--   over:<tenant>      LIST    its completed batches, packed [uid, completed (us), results,
--                              until when they are kept (ms)], and
--   over#:<tenant>     STRING  the sum of their results
--   quota:<tenant>     HASH    requests bytes batches
--   open, due          ZSET    uid -> deadline; uid -> when it is overdue (ms); batches not complete
--   closing            ZSET    uid -> since when (ms) its end is in progress, in chunks
--   used               ZSET    <tenant>:<task> -> when it was last used (us)
--   hints              HASH    <tenant>:<task> -> packed [size, when (us)]; until a batch opens
--   hinted             ZSET    <tenant>:<task> -> when its hint expires (ms, to the microsecond)
--   hosts              ZSET    worker host -> when its record runs out (ms), and
--   host               HASH    worker host -> its record, packed, and
--   host_of            HASH    worker host -> whose it is, of those whose number is limited
--   lc:<stage>:<worker host>  LIST  the jobs of its last claims of the stage, packed, one list per
--                              answer; until their leases run out
--   he:<worker host>   HASH    stage -> requests that it judged, counted for a day
--   lead               STRING  the planner that leads, until its lease expires
--   gone               ZSET    uid -> when the keys of a batch with dead letters expire (ms)
--   bl:<sha256>.<of>   STRING  a payload part of a tenant that is too large for its job
--   up:<random>        STRING  such a part while it is uploaded in pieces
--   br:<sha256>.<of>   STRING  how many jobs hold it
--   ev                 STREAM  {b: batch}: something changed; a hint, the state is in the keys above
--   pev                STREAM  {t: 'planning'}: planners should look again
--   seq, tasks, leads  STRING  counters
--   fence              STRING  the newest fence, never behind the clock (us)
--
-- Instants are this server's clock in microseconds (doubles hold them exactly) unless said.

local P = KEYS[1]
local call = redis.call
local clock = call('TIME')
local NOW_US = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local NOW_MS = math.floor(NOW_US / 1000)
local SLICE = 1000 -- values per call; Lua's stack holds about 8,000
local EVENTS_MAX = 10000
local PLANNING_EVENTS_MAX = 1000
local TASK_KEPT_MS = 30 * 86400 * 1000 -- after its last batch was opened or ended
local TASK_REFRESH_MS = 3600 * 1000 -- expiries of a task are written at most so often
local EXTRA_PART = 16 -- of the time that a task is kept: how much longer it may be kept
local TASKS_LISTED_MAX = 10000
local BATCH_REQUESTS_MAX = 1000000
local RESULTS_KEPT_MAX = 1000000 -- of a tenant whose batch has no value
local GROUP_JUDGED_MAX = 64 -- as in core/store_limits.py
local FORGOTTEN_MAX = 16 -- batches per call
local SPANS_KEPT = 5 -- as in core/store_limits.py
local COST_US_MIN, LEARNT_FROM = 1000, 16 -- as in core/ordering.py
local DEVIATION_MIN = 1e-8 -- as in core/advantages.py
local KEPT_KINDS = { 'b:', 'd:', 'gs:', 'g:', 'gg:', 'r:', 'pl:' } -- of a batch, as long as its results

local function in_slices(command, key, list)
  for first = 1, #list, SLICE do
    call(command, key, unpack(list, first, math.min(first + SLICE - 1, #list)))
  end
end

local function delete(keys)
  for first = 1, #keys, SLICE do
    call('DEL', unpack(keys, first, math.min(first + SLICE - 1, #keys)))
  end
end

local function read_slices(key, fields)
  if #fields <= SLICE then return call('HMGET', key, unpack(fields)) end
  local all = {}
  for first = 1, #fields, SLICE do
    local part = call('HMGET', key, unpack(fields, first, math.min(first + SLICE - 1, #fields)))
    for i = 1, #part do all[first + i - 1] = part[i] end
  end
  return all
end

-- A job as a table. What never changes stays packed in `static` until it is needed. A claim needs no
-- timings of the stages gone; `bare` leaves them out.
local function read_job(job, bare)
  local key = P .. 'j:' .. job
  local stored = bare and call('HMGET', key, 'D', 'S') or call('HMGET', key, 'D', 'S', 'm', 'v')
  if not stored[1] then return nil end
  local uid, stage, state, attempts, claims, fence, enqueued, claimed, arrived, worker, stages_gone,
    replayed, err, charged, weight = cmsgpack.unpack(stored[1])
  -- One constructor: a table that is filled field by field is made larger five times.
  return { static = stored[2], timings = stored[3] or '', services = stored[4] or '', facts = nil,
    uid = uid, stage = stage, state = state, attempts = attempts, claims = claims, fence = fence,
    enqueued = enqueued, claimed = claimed, arrived = arrived, worker = worker,
    stages_gone = stages_gone, replayed = replayed, error = err,
    charged = charged or 0, weight = weight or 1 } -- absent before tenants had queues
end

local function pack_job(j)
  return cmsgpack.pack(j.uid, j.stage, j.state, j.attempts, j.claims, j.fence, j.enqueued,
    j.claimed, j.arrived, j.worker, j.stages_gone, j.replayed, j.error, j.charged, j.weight)
end

local function write_job(job, j)
  call('HSET', P .. 'j:' .. job, 'D', pack_job(j))
end

local function mark(stage)
  call('ZADD', P .. 'm:' .. stage, 0, '0')
end

local function tell_planners()
  call('XADD', P .. 'pev', 'MAXLEN', '~', PLANNING_EVENTS_MAX, '*', 't', 'planning')
end

local tenants_of = {}

local function tenant_of(uid)
  local tenant = tenants_of[uid]
  if not tenant then
    tenant = string.match(uid, '^[^:]*')
    tenants_of[uid] = tenant
  end
  return tenant
end

-- What never changes of a job, unpacked once.
local function static_of(j)
  if not j.facts then j.facts = cmsgpack.unpack(j.static) end
  return j.facts
end

local function tell(uid)
  call('XADD', P .. 'ev', 'MAXLEN', '~', EVENTS_MAX, '*', 'b', string.match(uid, '[^:]*$'))
end

local doomed = {} -- keys to delete, last
