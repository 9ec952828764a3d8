-- Requests that end or wait again, their groups and their batches. Included after requests.lua,
-- shares.lua, task_use.lua, gathering.lua and letters.lua.

local heads = {}

local function array_head(count)
  local head = heads[count]
  if not head then
    head = '\220' .. string.char(math.floor(count / 256), count % 256)
    heads[count] = head
  end
  return head
end

-- Rank of a batch's requests in the queues; both instants are in us.
local function score(deadline, rank)
  rank = tonumber(rank or 0)
  return math.ceil((rank > 0 and rank or tonumber(deadline)) / 1000)
end

-- Effects of this call on each batch, collected first and written once, in order of first touch.
local touched, order, queued = {}, {}, {}
local completed = {}

local function touch(uid)
  local t = touched[uid]
  if not t then
    t = { log = {}, jobs = {}, history = {}, outcomes = {}, groups = {}, rewards = {},
      gathered = {}, ended = 0, running = 0, bytes = 0 }
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

local function timing(j, started_ns, finished_ns)
  return '\152' .. cmsgpack.pack(j.stage, j.enqueued, j.claimed, started_ns, finished_ns,
    NOW_US, j.attempts, j.worker)
end

-- The share of one of `requests` that were served together; also returns its nanoseconds.
local function service(j, started_ns, finished_ns, requests)
  local ns = math.floor((tonumber(finished_ns) - tonumber(started_ns)) / (requests or 1))
  return cmsgpack.pack(j.stage, ns), ns
end

local function every_second(_, ns, more, ...)
  if not more then return ns end
  return ns + every_second(more, ...)
end

local function sum_of_services(packed) -- stage, ns, stage, ns ...
  if packed == '' then return 0 end
  return every_second(cmsgpack.unpack(packed))
end

-- A request ends: `last` and `served` are the timing and service of its last stage, or ''. The
-- caller takes it from its queue or lease set. `served_ns`: of `served`, if known.
local function end_request(job, j, outcome, reward, body, err, last, served, served_ns)
  local t = touch(j.uid)
  local static = static_of(j)
  local group = static[2]
  local stages = j.stages_gone + (last == '' and 0 or 1)
  t.log[#t.log + 1] = array_head(7 + stages) .. '\0' .. j.static
    .. cmsgpack.pack(outcome, reward, body, err, j.claims) .. j.timings .. last
  t.history[#t.history + 1] = array_head(2 + 2 * stages)
    .. cmsgpack.pack(j.arrived, outcome) .. j.services .. served
  served_ns = served_ns or sum_of_services(served)
  local natural = (j.arrived - NOW_US) * 1000 + sum_of_services(j.services) + served_ns
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
    local rewards = t.rewards[group]
    rewards[#rewards + 1] = { reward, j.replayed == 1 }
  end
end

-- A request, or a group, that ran out of attempts ends, and is kept for the operator.
local function bury(job, j, err, last, served, letters_max, own_max)
  if is_group(job) then
    local members = members_of(j)
    touch(j.uid).running = touch(j.uid).running - #members
    for _, name in ipairs(members) do
      local member = read_job(name)
      member.claims = member.claims + j.claims
      end_request(name, member, 'INFRA_FAILED', '', '', err, last, served)
    end
  else
    end_request(job, j, 'INFRA_FAILED', '', '', err, last, served)
  end
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

-- A lease ends and the request, or the group, waits again, in its old place in the queue.
local function deliver_again(job, j, err)
  touch(j.uid).running = touch(j.uid).running - requests_of(job, j)
  j.state, j.error = 'Q', err
  write_job(job, j)
  enqueue(j.stage, job, j.uid)
end

-- A request, whose lease has ended, reaches the stage that judges its group.
local function arrive(job, j)
  local t, group = touch(j.uid), group_of(j)
  t.running = t.running - 1
  j.state, j.error = 'G', ''
  if gather(j.uid, group, job) then
    write_job(job, j)
    t.gathered[group] = true
  else
    end_request(job, j, 'INFRA_FAILED', '', '', JUDGED_WITHOUT, '', '')
    drop_job(job, j)
  end
end

-- Queue the own jobs of those of these groups (in any order) none of whose requests can still come.
local function open_if_complete(uid, b, groups)
  if b.closing ~= '' then return end
  table.sort(groups)
  for _, group in ipairs(groups) do
    local members = call('SCARD', members_key(uid, group))
    local live = tonumber(call('HGET', P .. 'gn:' .. uid, group) or 0)
    local submitted = tonumber(call('HGET', P .. 'gs:' .. uid, group))
    local is_open = call('HEXISTS', P .. 'gg:' .. uid, group) == 1
    local is_whole = b.state ~= 'OPEN' or submitted == tonumber(b.k)
    if members > 0 and members == live and is_whole and not is_open then
      local job = string.format('g%015.0f', call('INCR', P .. 'seq'))
      call('HSET', P .. 'j:' .. job, 'S', cmsgpack.pack({ '', group, submitted, '' }),
        'D', pack_job({ uid = uid, stage = b.gathers, state = 'Q', attempts = 0, claims = 0,
          fence = 0, enqueued = NOW_US, claimed = 0, arrived = NOW_US, worker = '', stages_gone = 0,
          replayed = 0, error = '', charged = 0, weight = 1 }))
      call('HSET', P .. 'gg:' .. uid, group, job)
      call('SREM', P .. 'gw:' .. uid, group)
      call('ZADD', P .. 'q:' .. b.gathers .. ':' .. tenant_of(uid), score(b.deadline, b.rank), job)
      join(b.gathers, tenant_of(uid))
      mark(b.gathers)
    end
  end
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

local function moments(values)
  local sum, squares, same = 0, 0, true
  for _, value in ipairs(values) do
    sum = sum + value
    same = same and value == values[1]
  end
  if same then return values[1] or 0, 0 end
  local mean = sum / #values
  for _, value in ipairs(values) do squares = squares + (value - mean) * (value - mean) end
  return mean, math.sqrt(squares / #values)
end

local function standard(reward, mean, deviation)
  return deviation > DEVIATION_MIN and (reward - mean) / deviation or 0
end

-- `zero_shift_micro` of core/advantages.py, operation for operation.
local function zero_shift(rewards)
  if not string.find(',' .. rewards .. ',', ',,', 1, true) then return 0 end -- none is missing
  local listed, present, all = split(rewards), {}, {}
  for i, reward in ipairs(listed) do
    all[i] = tonumber(reward) or 0
    if reward ~= '' then present[#present + 1] = all[i] end
  end
  local mean, deviation = moments(present)
  local mean_0, deviation_0 = moments(all)
  local total = 0
  for i, reward in ipairs(listed) do
    local own = reward == '' and 0 or standard(all[i], mean, deviation)
    total = total + math.abs(standard(all[i], mean_0, deviation_0) - own)
  end
  if total ~= total or total == math.huge then return 0 end
  return math.floor(total * 1000000 + 0.5)
end

-- Count groups that are in the log: their requests, and by how much zeros would shift their advantages.
local function count_shift(uid, grouped, shift)
  local key = P .. 'b:' .. uid
  if grouped ~= 0 then call('HINCRBY', key, 'grouped', grouped) end
  if shift ~= 0 then call('HINCRBY', key, 'shift', string.format('%.0f', shift)) end
end

-- Append the groups that are complete to `t.log`.
local function settle_touched_groups(uid, t, open, k)
  local submitted = read_slices(P .. 'gs:' .. uid, t.groups)
  local states = read_slices(P .. 'g:' .. uid, t.groups)
  local writes, waiting, grouped, shift = {}, {}, 0, 0
  for i, group in ipairs(t.groups) do
    local ended, told, rewards = add_rewards(states[i], t.rewards[group])
    local all = ended == tonumber(submitted[i])
    if told == '0' and (ended == k or (all and not open)) then
      told = '1'
      t.log[#t.log + 1] = group_entry(group, rewards)
      grouped, shift = grouped + ended, shift + zero_shift(rewards)
      local before, old = string.match(states[i] or '', '^(%d+) 1 (.*)$')
      if before then grouped, shift = grouped - before, shift - zero_shift(old) end -- logged again
    elseif told == '0' and all then
      waiting[#waiting + 1] = group
    end
    writes[#writes + 1] = group
    writes[#writes + 1] = ended .. ' ' .. told .. ' ' .. rewards
  end
  count_shift(uid, grouped, shift)
  in_slices('SADD', P .. 'gp:' .. uid, waiting)
  in_slices('HSET', P .. 'g:' .. uid, writes)
end

-- Batches -----------------------------------------------------------------------------------------

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
  'submitted', 'ended', 'running', 'kept', 'history', 'natural', 'results_max', 'reserved', 'rank',
  'gathers' }

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
    completed[#completed + 1] = { math.floor((tonumber(b.deadline) - NOW_US) / 1000),
      call('HGETALL', P .. 'b:' .. uid) }
  else
    call('DEL', P .. 'hb:' .. uid)
  end
  b.requests = ''
  local requests, bytes = string.match(b.reserved or '0 0', '^(%d+) (%d+)$')
  release_quota(b.tenant, tonumber(requests), tonumber(bytes), 1)
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
  if b.gathers then
    for _, group in ipairs(t.groups) do
      count_live(uid, group, -#t.rewards[group])
      t.gathered[group] = true
    end
  end
  in_slices('RPUSH', P .. 'r:' .. uid, t.log)
  in_slices('SREM', P .. 'live:' .. uid, t.jobs)
  release_quota(b.tenant, t.ended, t.bytes, 0)
end

local function keys_of(set)
  local keys = {}
  for key in pairs(set) do keys[#keys + 1] = key end
  return keys
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
      open_if_complete(uid, b, keys_of(t.gathered))
      finish_batch_if_done(uid, b)
      if b.requests ~= '' then call('APPEND', P .. 'hb:' .. uid, b.requests) end
      tell(uid)
    else
      if t.running ~= 0 then call('HINCRBY', P .. 'b:' .. uid, 'running', t.running) end
      if next(t.gathered) then
        open_if_complete(uid, batch_facts(uid, {}), keys_of(t.gathered))
      end
    end
  end
  write_quotas()
end

