-- Shared by the scripts that move requests; put in place of their `--@include requests.lua` line.
--
-- One hash tag per shard: KEYS[1] is the prefix `assay:{<shard>}:`, every key below begins with it,
-- so all are in one slot. A batch is called `<tenant>:<batch>` (<uid>), a request `%016d` (<job>).
--
--   t:<tenant>:<task>  HASH    rec  n (its number)  first (stage)  batches (opened so far)
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
--                              risk (0 | 1)  natural (ns: arrival + services of those ended, most)
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
--   p:<job>            STRING  packed [response, reference]: bytes, or the hash of a large part
--   o:<job>            STRING  hand-over of the previous stage
--   staged             ZSET    '<first job> <count>' of jobs that no batch has yet -> when they are
--                              dropped (ms)
--   q:<stage>:<tenant> ZSET    job -> deadline or rank of its batch (ms): EBF, then arrival by the
--                              name
--   s:<stage>          ZSET    tenant with waiting jobs -> its virtual time (us): the smallest is
--                              served; exists while the stage has work
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
--   hinted             ZSET    <tenant>:<task> -> when its hint expires (ms)
--   lead               STRING  the planner that leads, until its lease expires
--   gone               ZSET    uid -> when the keys of a batch with dead letters expire (ms)
--   bl:<sha256>        STRING  a payload part that is too large for its job
--   up:<random>        STRING  such a part while it is uploaded in pieces
--   br:<sha256>        STRING  how many jobs hold it
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
local FORGOTTEN_MAX = 16 -- batches per call
local SPANS_KEPT = 5 -- as in core/store_limits.py
local COST_US_MIN, LEARNT_FROM = 1000, 16 -- as in core/ordering.py
local KEPT_KINDS = { 'b:', 'd:', 'gs:', 'g:', 'r:', 'pl:' } -- of a batch, as long as its results

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
  local j = { static = stored[2], timings = stored[3] or '', services = stored[4] or '' }
  j.uid, j.stage, j.state, j.attempts, j.claims, j.fence, j.enqueued, j.claimed, j.arrived,
    j.worker, j.stages_gone, j.replayed, j.error, j.charged, j.weight = cmsgpack.unpack(stored[1])
  j.charged, j.weight = j.charged or 0, j.weight or 1 -- absent before tenants had queues
  return j
end

local function pack_job(j)
  return cmsgpack.pack(j.uid, j.stage, j.state, j.attempts, j.claims, j.fence, j.enqueued,
    j.claimed, j.arrived, j.worker, j.stages_gone, j.replayed, j.error, j.charged, j.weight)
end

local function write_job(job, j)
  call('HSET', P .. 'j:' .. job, 'D', pack_job(j))
end

local function job_name(number)
  return string.format('%016.0f', number)
end

-- The changing part of a job that has just arrived; requests of one call share it.
local function pack_new_job(uid, stage)
  return pack_job({ uid = uid, stage = stage, state = 'Q', attempts = 0, claims = 0, fence = 0,
    enqueued = NOW_US, claimed = 0, arrived = NOW_US, worker = '', stages_gone = 0, replayed = 0,
    error = '', charged = 0, weight = 1 })
end

local function store_new_job(job, packed, static, payload)
  call('HSET', P .. 'j:' .. job, 'S', static, 'D', packed)
  call('SET', P .. 'p:' .. job, payload)
end

local function staged_name(first, count)
  return string.format('%.0f %.0f', first, count)
end

local function array_head(count)
  return '\220' .. string.char(math.floor(count / 256), count % 256)
end

local function mark(stage)
  call('ZADD', P .. 'm:' .. stage, 0, '0')
end

local function tell_planners()
  call('XADD', P .. 'pev', 'MAXLEN', '~', PLANNING_EVENTS_MAX, '*', 't', 'planning')
end

-- Write a task's expiries; they last `extra_ms` longer than they must.
local function refresh_task(name, kept_ms, extra_ms)
  local key = P .. 't:' .. name
  local own = P .. 'tt:' .. string.match(name, '^[^:]*')
  local used, common_ms = P .. 'used', TASK_KEPT_MS + TASK_REFRESH_MS -- until the next refresh
  kept_ms = math.max(kept_ms + extra_ms, call('PTTL', key))
  call('HSET', key, 'until', NOW_MS + kept_ms, 'refreshed', NOW_MS)
  call('PEXPIRE', key, kept_ms)
  call('ZADD', own, NOW_MS + kept_ms, string.match(name, '[^:]*$'))
  call('PEXPIRE', own, math.max(kept_ms, common_ms))
  call('PEXPIRE', P .. 'h:' .. name, common_ms)
  call('PEXPIRE', used, common_ms)
  call('ZREMRANGEBYRANK', used, 0, -TASKS_LISTED_MAX - 1)
  local old = NOW_US - TASK_KEPT_MS * 1000
  local gone = call('ZRANGEBYSCORE', used, '-inf', old, 'LIMIT', 0, SLICE)
  if #gone > 0 then call('ZREM', used, unpack(gone)) end
end

-- A task was used: list it first, and keep it for at least `needed_ms` more. `facts` are its fields
-- kept, until, refreshed. The expiries are written for longer than they must last, and again only
-- when they are too early for this use, or `TASK_REFRESH_MS` after the last time.
local function use_task(name, needed_ms, facts)
  local listed = call('ZADD', P .. 'used', NOW_US, name) == 0
  local own_ms = tonumber(facts[1] or TASK_KEPT_MS)
  local kept_ms = math.max(own_ms, needed_ms)
  local refreshed_ms = tonumber(facts[3] or 0)
  local recent = refreshed_ms <= NOW_MS and NOW_MS < refreshed_ms + TASK_REFRESH_MS
  if listed and recent and NOW_MS + kept_ms <= tonumber(facts[2]) then return end
  local extra_ms = math.min(TASK_REFRESH_MS, math.floor(own_ms / EXTRA_PART))
  refresh_task(name, kept_ms, extra_ms)
end

-- Shares of tenants: `Shares` and `Costs` of core/ordering.py, number for number -----------------

local function tenant_of(uid)
  return string.match(uid, '^[^:]*')
end

local function advance_us(cost_us, weight)
  return math.ceil(cost_us / weight)
end

local function join(stage, tenant)
  local waiting = P .. 's:' .. stage
  local first = call('ZRANGE', waiting, 0, 0)[1]
  if first == tenant then return end
  if not first then
    call('ZADD', waiting, 0, tenant)
    return
  end
  if call('ZSCORE', waiting, tenant) then return end
  call('HSETNX', P .. 'sv:' .. stage, 'since', call('GET', P .. 'fence') or '0')
  local now_us = tonumber(call('HGET', P .. 'sv:' .. stage, 'now') or 0)
  local debt = tonumber(call('ZSCORE', P .. 'sd:' .. stage, tenant) or 0)
  call('ZADD', waiting, math.max(now_us, debt), tenant)
  call('ZREM', P .. 'sd:' .. stage, tenant)
end

-- Returns whether the tenant still waits.
local function leave_if_empty(stage, tenant)
  if call('EXISTS', P .. 'q:' .. stage .. ':' .. tenant) == 1 then return true end
  local waiting = P .. 's:' .. stage
  local virtual_us = call('ZSCORE', waiting, tenant)
  if not virtual_us then return false end
  call('ZREM', waiting, tenant)
  if call('EXISTS', waiting) == 0 then
    call('DEL', P .. 'sv:' .. stage, P .. 'sd:' .. stage)
  else
    call('ZADD', P .. 'sd:' .. stage, virtual_us, tenant)
  end
  return false
end

-- Difference between the request's charge and its cost; 0 if that charge no longer counts.
local function correction_us(j, cost_us)
  if j.charged == 0 then return 0 end
  local since = call('HGET', P .. 'sv:' .. j.stage, 'since')
  if not since or j.fence <= tonumber(since) then return 0 end
  return advance_us(cost_us, j.weight) - j.charged
end

local function correct(stage, tenant, more_us)
  if more_us == 0 then return end
  if call('ZSCORE', P .. 's:' .. stage, tenant) then
    local shares, waiting = P .. 'sv:' .. stage, P .. 's:' .. stage
    call('ZINCRBY', waiting, more_us, tenant)
    local now_us = tonumber(call('HGET', shares, 'now') or 0)
    local last_us = tonumber(call('ZRANGE', waiting, -1, -1, 'WITHSCORES')[2])
    if last_us < now_us then call('HSET', shares, 'now', last_us) end
    return
  end
  local debts = P .. 'sd:' .. stage
  local now_us = tonumber(call('HGET', P .. 'sv:' .. stage, 'now') or 0)
  local virtual_us = math.max(tonumber(call('ZSCORE', debts, tenant) or 0), now_us) + more_us
  if virtual_us > now_us then
    call('ZADD', debts, virtual_us, tenant)
  else
    call('ZREM', debts, tenant)
  end
end

local function learn(stage, tenant, total_us, count)
  local key = P .. 'cost:' .. stage
  local known = call('HMGET', key, tenant, '')
  local mean_us, changed = total_us / count, false
  for i = 1, 2 do
    local old = tonumber(known[i] or 0)
    local new = math.floor(mean_us)
    if old > 0 then new = math.floor(old + (mean_us - old) * count / (count + LEARNT_FROM)) end
    changed = changed or new ~= old
    known[i] = new
  end
  if changed and call('HSET', key, tenant, known[1], '', known[2]) > 0 then
    call('PEXPIRE', key, TASK_KEPT_MS)
  end
end

-- Rank of a batch's requests in the queues; both instants are in us.
local function score(deadline, rank)
  rank = tonumber(rank or 0)
  return math.ceil((rank > 0 and rank or tonumber(deadline)) / 1000)
end

local doomed = {} -- keys to delete, last

local function forget_new_job(job)
  doomed[#doomed + 1] = P .. 'j:' .. job
  doomed[#doomed + 1] = P .. 'p:' .. job
end

-- Drop jobs that no batch has accepted; no effect if one has, or if they are already dropped.
local function unstage(first, count)
  if call('ZREM', P .. 'staged', staged_name(first, count)) == 0 then return end
  for n = 0, count - 1 do forget_new_job(job_name(first + n)) end
end

local function drop_blobs(hashes)
  for hash in string.gmatch(hashes, '%S+') do
    if call('DECR', P .. 'br:' .. hash) <= 0 then
      call('DEL', P .. 'br:' .. hash, P .. 'bl:' .. hash)
    end
  end
end

-- Effects of this call on each batch, collected first and written once, in order of first touch.
local touched, order, queued = {}, {}, {}
local completed = {}

local function touch(uid)
  local t = touched[uid]
  if not t then
    t = { log = {}, jobs = {}, history = {}, outcomes = {}, groups = {}, rewards = {},
      ended = 0, running = 0, bytes = 0 }
    touched[uid] = t
    order[#order + 1] = uid
  end
  return t
end

local function score_of(uid)
  local t = touch(uid)
  if not t.score then
    t.score = score(unpack(call('HMGET', P .. 'b:' .. uid, 'deadline', 'rank')))
  end
  return t.score
end

local function enqueue(stage, job, uid)
  local tenant = tenant_of(uid)
  queued[stage] = queued[stage] or {}
  local list = queued[stage][tenant]
  if not list then
    list = {}
    queued[stage][tenant] = list
  end
  list[#list + 1] = score_of(uid)
  list[#list + 1] = job
end

-- Put jobs of a batch that were held back into their queue.
local function release(uid, jobs_max)
  local jobs = call('ZPOPMIN', P .. 'held:' .. uid, jobs_max)
  for i = 1, #jobs, 2 do
    enqueue(read_job(jobs[i]).stage, jobs[i], uid)
  end
  if call('EXISTS', P .. 'held:' .. uid) == 0 then
    call('ZREM', P .. 'holding', uid)
  else
    call('ZADD', P .. 'holding', NOW_MS, uid)
  end
  return #jobs / 2
end

local function timing(j, started_ns, finished_ns)
  return '\152' .. cmsgpack.pack(j.stage, j.enqueued, j.claimed, started_ns, finished_ns,
    NOW_US, j.attempts, j.worker)
end

local function service(j, started_ns, finished_ns)
  return cmsgpack.pack(j.stage, tonumber(finished_ns) - tonumber(started_ns))
end

local function sum_of_services(packed)
  if packed == '' then return 0 end
  local values, sum = { cmsgpack.unpack(packed) }, 0 -- stage, ns, stage, ns ...
  for i = 2, #values, 2 do sum = sum + values[i] end
  return sum
end

-- A request ends: `last` and `served` are the timing and service of its last stage, or ''. The
-- caller takes it from its queue or lease set.
local function end_request(job, j, outcome, reward, body, err, last, served)
  local t = touch(j.uid)
  local static = cmsgpack.unpack(j.static)
  local group = static[2]
  local stages = j.stages_gone + (last == '' and 0 or 1)
  t.log[#t.log + 1] = array_head(7 + stages) .. '\0' .. j.static
    .. cmsgpack.pack(outcome, reward, body, err, j.claims) .. j.timings .. last
  t.history[#t.history + 1] = array_head(2 + 2 * stages)
    .. cmsgpack.pack(j.arrived, outcome) .. j.services .. served
  local natural = (j.arrived - NOW_US) * 1000 + sum_of_services(j.services .. served)
  t.natural = math.max(t.natural or natural, natural) -- ns since now: so a double is exact
  t.jobs[#t.jobs + 1] = job
  t.outcomes[outcome] = (t.outcomes[outcome] or 0) + 1
  t.ended = t.ended + 1
  t.bytes = t.bytes + static[3]
  if j.state == 'L' then t.running = t.running - 1 end
  if group ~= '' then
    if not t.rewards[group] then
      t.rewards[group] = {}
      t.groups[#t.groups + 1] = group
    end
    table.insert(t.rewards[group], { reward, j.replayed == 1 })
  end
end

local function drop_job(job, j)
  local hashes = cmsgpack.unpack(j.static)[4]
  if hashes ~= '' then drop_blobs(hashes) end
  doomed[#doomed + 1] = P .. 'j:' .. job
  doomed[#doomed + 1] = P .. 'p:' .. job
  if j.stages_gone > 0 then doomed[#doomed + 1] = P .. 'o:' .. job end
end

local function unlist_letter(job, j)
  call('ZREM', P .. 'dlq:' .. j.stage, job)
  call('ZREM', P .. 'dlq:' .. j.stage .. ':' .. tenant_of(j.uid), job)
  call('SREM', P .. 'dead:' .. j.uid, job)
  if call('EXISTS', P .. 'dlq:' .. j.stage) == 0 then call('SREM', P .. 'dlqs', j.stage) end
end

local function drop_letter(job)
  local j = read_job(job)
  unlist_letter(job, j)
  drop_job(job, j)
end

local function drop_letters(uid, letters_max)
  local letters = call('SRANDMEMBER', P .. 'dead:' .. uid, letters_max)
  for _, job in ipairs(letters) do drop_letter(job) end
end

-- A request that ran out of attempts ends, and is kept for the operator.
local function bury(job, j, err, last, served, letters_max, own_max)
  end_request(job, j, 'INFRA_FAILED', '', '', err, last, served)
  local letters = P .. 'dlq:' .. j.stage
  j.state, j.error = 'D', err
  write_job(job, j)
  local own = letters .. ':' .. tenant_of(j.uid)
  call('ZADD', letters, NOW_MS, job)
  call('ZADD', own, NOW_MS, job)
  call('SADD', P .. 'dlqs', j.stage)
  call('SADD', P .. 'dead:' .. j.uid, job)
  local owned = call('ZCARD', own)
  if owned > own_max then
    drop_letter(call('ZRANGE', own, 0, 0)[1])
  elseif call('ZCARD', letters) > letters_max then
    drop_letter(call('ZRANGE', owned > 1 and own or letters, 0, 0)[1])
  end
end

-- A lease ends and the request waits again, in its old place in the queue.
local function deliver_again(job, j, err)
  touch(j.uid).running = touch(j.uid).running - 1
  j.state, j.error = 'Q', err
  write_job(job, j)
  enqueue(j.stage, job, j.uid)
end

-- Groups ------------------------------------------------------------------------------------------

local function group_entry(group, rewards)
  return array_head(3) .. cmsgpack.pack(1, group, rewards)
end

local function split(text)
  local parts = {}
  for part in string.gmatch(text .. ',', '([^,]*),') do parts[#parts + 1] = part end
  return parts
end

local function add_rewards(value, fresh)
  local ended, told, listed = 0, '0', {}
  if value then
    local count, flag, rewards = string.match(value, '^(%d+) (%d) (.*)$')
    ended, told = tonumber(count), flag
    if ended > 0 then listed = split(rewards) end
  end
  for _, one in ipairs(fresh) do
    local place = #listed + 1
    if one[2] then -- a replayed request takes the place of its first end, which had no reward
      for i = 1, #listed do
        if listed[i] == '' then place = i break end
      end
    end
    listed[place] = one[1]
    if one[2] then told = '0' end
  end
  return #listed, told, table.concat(listed, ',')
end

-- Append the groups that are complete to `t.log`.
local function settle_touched_groups(uid, t, open, k)
  local submitted = read_slices(P .. 'gs:' .. uid, t.groups)
  local states = read_slices(P .. 'g:' .. uid, t.groups)
  local writes, waiting = {}, {}
  for i, group in ipairs(t.groups) do
    local ended, told, rewards = add_rewards(states[i], t.rewards[group])
    local all = ended == tonumber(submitted[i])
    if told == '0' and (ended == k or (all and not open)) then
      told = '1'
      t.log[#t.log + 1] = group_entry(group, rewards)
    elseif told == '0' and all then
      waiting[#waiting + 1] = group
    end
    writes[#writes + 1] = group
    writes[#writes + 1] = ended .. ' ' .. told .. ' ' .. rewards
  end
  in_slices('SADD', P .. 'gp:' .. uid, waiting)
  in_slices('HSET', P .. 'g:' .. uid, writes)
end

-- Log the groups of a sealed batch that waited for the seal; returns how many.
local function tell_waiting_groups(uid, groups_max)
  local waiting = call('SPOP', P .. 'gp:' .. uid, groups_max)
  if #waiting == 0 then return 0 end
  table.sort(waiting)
  local submitted = read_slices(P .. 'gs:' .. uid, waiting)
  local states = read_slices(P .. 'g:' .. uid, waiting)
  local writes, log = {}, {}
  for i, group in ipairs(waiting) do
    local ended, told, rewards = string.match(states[i], '^(%d+) (%d) (.*)$')
    if told == '0' and ended == submitted[i] then
      log[#log + 1] = group_entry(group, rewards)
      writes[#writes + 1] = group
      writes[#writes + 1] = ended .. ' 1 ' .. rewards
    end
  end
  in_slices('RPUSH', P .. 'r:' .. uid, log)
  in_slices('HSET', P .. 'g:' .. uid, writes)
  return #waiting
end

-- Batches -----------------------------------------------------------------------------------------

local function tell(uid)
  call('XADD', P .. 'ev', 'MAXLEN', '~', EVENTS_MAX, '*', 'b', string.match(uid, '[^:]*$'))
end

local function expire_batch(uid, kept_ms)
  for _, kind in ipairs(KEPT_KINDS) do
    call('PEXPIREAT', P .. kind .. uid, NOW_MS + kept_ms)
  end
  if call('EXISTS', P .. 'dead:' .. uid) == 1 then
    call('ZADD', P .. 'gone', NOW_MS + kept_ms, uid)
  end
end

local function keep_history(uid, b)
  local name = b.tenant .. ':' .. b.task
  local task, key = P .. 't:' .. name, P .. 'h:' .. name
  local before = call('GET', P .. 'hb:' .. uid)
  if before then call('DEL', P .. 'hb:' .. uid) end
  local requests = (before or '') .. b.requests
  local kept = call('LPUSH', key, cmsgpack.pack(b.batch, b.opened, NOW_US, b.deadline, requests))
  if kept == 1 then call('PEXPIRE', key, TASK_KEPT_MS + TASK_REFRESH_MS) end
  if kept > tonumber(b.history) then call('LTRIM', key, 0, tonumber(b.history) - 1) end
  local facts = call('HMGET', task, 'kept', 'until', 'refreshed', 'done')
  if tonumber(b.submitted) > 0 then
    local done = tonumber(facts[4] or 0) + 1
    call('HSET', task, 'done', done, 'span' .. done % SPANS_KEPT, b.natural or 0)
  end
  use_task(name, 0, facts)
end

-- Delete the keys of a batch completed at `completed`, unless it was opened again since.
local function forget_batch(uid, completed)
  local state, at = unpack(call('HMGET', P .. 'b:' .. uid, 'state', 'completed'))
  if state ~= 'COMPLETE' and state ~= 'CANCELLED' or tonumber(at) ~= completed then return end
  if call('EXISTS', P .. 'live:' .. uid) == 1 then return end -- a dead letter was replayed
  for _, kind in ipairs(KEPT_KINDS) do call('UNLINK', P .. kind .. uid) end
  if call('EXISTS', P .. 'dead:' .. uid) == 1 then call('ZADD', P .. 'gone', NOW_MS, uid) end
end

-- Remove the tenant's oldest batches to make room for the results of a completed one.
local function bound_results(uid, b)
  local over, sum = P .. 'over:' .. b.tenant, P .. 'over#:' .. b.tenant
  local count, kept_ms = tonumber(b.submitted) + 1, tonumber(b.kept)
  call('RPUSH', over, cmsgpack.pack(uid, NOW_US, count, NOW_MS + kept_ms))
  local total = call('INCRBY', sum, count)
  call('PEXPIRE', over, kept_ms)
  call('PEXPIRE', sum, kept_ms)
  for _ = 1, FORGOTTEN_MAX do
    local old, completed, results, until_ms = cmsgpack.unpack(call('LINDEX', over, 0))
    local full = total > tonumber(b.results_max or RESULTS_KEPT_MAX)
    if old == uid or (until_ms > NOW_MS and not full) then break end
    call('LPOP', over)
    total = call('DECRBY', sum, results)
    if until_ms > NOW_MS then forget_batch(old, completed) end
  end
end

local returned = {} -- tenant -> requests, bytes and batches that no longer count

local function release_quota(tenant, requests, bytes, batches)
  local sums = returned[tenant] or { 0, 0, 0 }
  returned[tenant] = sums
  sums[1], sums[2], sums[3] = sums[1] + requests, sums[2] + bytes, sums[3] + batches
end

local function write_quotas()
  for tenant, sums in pairs(returned) do
    local key = P .. 'quota:' .. tenant
    local held = call('HMGET', key, 'requests', 'bytes', 'batches')
    for i = 1, 3 do held[i] = tonumber(held[i] or 0) - sums[i] end
    if held[1] <= 0 and held[3] <= 0 then
      call('DEL', key)
    else
      call('HSET', key, 'requests', held[1], 'bytes', held[2], 'batches', held[3])
    end
  end
  returned = {}
end

local BATCH_FACTS = { 'tenant', 'batch', 'task', 'state', 'closing', 'k', 'opened', 'deadline',
  'submitted', 'ended', 'running', 'kept', 'history', 'natural', 'results_max' }

-- A batch as a table, with its counts of these outcomes; `change` and `write_batch` write it.
local function batch_facts(uid, outcomes)
  local names = { unpack(BATCH_FACTS) }
  for outcome in pairs(outcomes) do names[#names + 1] = 'o:' .. outcome end
  local values = call('HMGET', P .. 'b:' .. uid, unpack(names))
  local b = { changes = {}, requests = '' }
  for i, name in ipairs(names) do b[name] = values[i] end
  return b
end

local function change(b, name, value)
  b[name] = value
  b.changes[#b.changes + 1] = name
  b.changes[#b.changes + 1] = value
end

local function add(b, name, more)
  change(b, name, string.format('%.0f', tonumber(b[name] or 0) + more))
end

local function write_batch(uid, b)
  if #b.changes > 0 then call('HSET', P .. 'b:' .. uid, unpack(b.changes)) end
  b.changes = {}
end

local function finish_batch(uid, b)
  local state = b.closing == 'CANCELLED' and 'CANCELLED' or 'COMPLETE'
  change(b, 'state', state)
  change(b, 'completed', NOW_US)
  write_batch(uid, b)
  call('ZREM', P .. 'open', uid)
  call('ZREM', P .. 'due', uid)
  call('ZREM', P .. 'closing', uid)
  if state == 'COMPLETE' then
    keep_history(uid, b)
    completed[#completed + 1] = { b.tenant, b.batch,
      math.floor((tonumber(b.deadline) - NOW_US) / 1000) }
  else
    call('DEL', P .. 'hb:' .. uid)
  end
  b.requests = ''
  release_quota(b.tenant, 0, 0, 1)
  expire_batch(uid, tonumber(b.kept))
  bound_results(uid, b)
  tell_planners()
end

-- Write the changes. A batch is complete when it is sealed, all its requests have ended and all its
-- groups are logged.
local function finish_batch_if_done(uid, b)
  if b.ended ~= b.submitted then return write_batch(uid, b) end
  if b.state == 'SEALED' then
    if call('EXISTS', P .. 'gp:' .. uid) == 0 then return finish_batch(uid, b) end
  elseif b.state ~= 'OPEN' then -- a replayed request of a completed batch has ended again
    call('ZREM', P .. 'due', uid)
    call('ZREM', P .. 'closing', uid)
    write_batch(uid, b)
    return expire_batch(uid, tonumber(b.kept))
  end
  write_batch(uid, b)
end

-- The changes of the batch itself are left to `finish_batch_if_done`.
local function write_ends(uid, t, b)
  local natural = t.natural + (NOW_US - tonumber(b.opened)) * 1000
  if natural > tonumber(b.natural or 0) then
    change(b, 'natural', string.format('%.0f', natural))
  end
  add(b, 'ended', t.ended)
  if t.running ~= 0 then add(b, 'running', t.running) end
  for outcome, count in pairs(t.outcomes) do add(b, 'o:' .. outcome, count) end
  if b.state == 'OPEN' or b.state == 'SEALED' then b.requests = table.concat(t.history) end
  if #t.groups > 0 then
    settle_touched_groups(uid, t, b.state == 'OPEN', tonumber(b.k))
  end
  in_slices('RPUSH', P .. 'r:' .. uid, t.log)
  in_slices('SREM', P .. 'live:' .. uid, t.jobs)
  release_quota(b.tenant, t.ended, t.bytes, 0)
end

-- Write what was collected. Until then `live`, the queues and the counters are as they were before.
local function write_touched()
  delete(doomed)
  doomed = {}
  for stage, tenants in pairs(queued) do
    for tenant, list in pairs(tenants) do
      in_slices('ZADD', P .. 'q:' .. stage .. ':' .. tenant, list)
      join(stage, tenant)
    end
    mark(stage)
  end
  local uids, changes = order, touched
  touched, order, queued = {}, {}, {}
  for _, uid in ipairs(uids) do
    local t = changes[uid]
    if t.ended > 0 then
      local b = batch_facts(uid, t.outcomes)
      write_ends(uid, t, b)
      finish_batch_if_done(uid, b)
      if b.requests ~= '' then call('APPEND', P .. 'hb:' .. uid, b.requests) end
      tell(uid)
    elseif t.running ~= 0 then
      call('HINCRBY', P .. 'b:' .. uid, 'running', t.running)
    end
  end
  write_quotas()
end

-- Take a job out of its queue, or away from its worker; the time that it held the worker is charged
-- in whole seconds, where that is more than it was charged before.
local function withdraw(job, j, tenant)
  if j.state ~= 'L' then
    if call('ZREM', P .. 'q:' .. j.stage .. ':' .. tenant, job) == 0 then
      call('ZREM', P .. 'held:' .. j.uid, job)
    end
    leave_if_empty(j.stage, tenant)
    return
  end
  call('ZREM', P .. 'l:' .. j.stage, job)
  local held_us = math.floor((NOW_US - j.claimed) / 1000000) * 1000000
  correct(j.stage, tenant, math.max(correction_us(j, held_us), 0))
end

-- Continue with the end of a batch, at most `steps_max` requests and groups at once; the rest is
-- left in `closing`. Returns how many requests this ended.
local function settle(uid, steps_max)
  local tenant = tenant_of(uid)
  local closing = call('HGET', P .. 'b:' .. uid, 'closing')
  local jobs = {}
  if closing ~= '' then jobs = call('SPOP', P .. 'live:' .. uid, steps_max) end
  table.sort(jobs)
  for _, job in ipairs(jobs) do
    local j = read_job(job)
    withdraw(job, j, tenant)
    end_request(job, j, closing, '', '', '', '', '')
    drop_job(job, j)
  end
  return #jobs
end

-- The second half of `settle`, after `write_touched`. Returns whether groups are left.
local function settle_groups(uid, steps_max)
  local told = tell_waiting_groups(uid, steps_max)
  local left = told == steps_max and call('EXISTS', P .. 'gp:' .. uid) == 1
  local b = batch_facts(uid, {})
  finish_batch_if_done(uid, b)
  write_quotas()
  local ending = b.closing ~= '' and call('EXISTS', P .. 'live:' .. uid) == 1
  if ending or (b.state == 'SEALED' and left) then
    call('ZADD', P .. 'closing', 'NX', NOW_MS, uid)
  else
    call('ZREM', P .. 'closing', uid)
  end
  if told > 0 or b.state ~= 'SEALED' then tell(uid) end
  return left
end
