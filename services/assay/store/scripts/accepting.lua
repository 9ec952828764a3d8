-- Requests that a batch accepts, all or none: checked first, then written. Included after
-- worker_time.lua, new_jobs.lua and settling.lua.
--   rows: {request, group, digest, static, payload, bytes, blobs} each, in one list
--   ranges: {first job, count} each, in one list, of the rows that `stage` has stored (all of them,
--     in order; their static and payload are ''); {} = none of them

local WIDTH = 7

-- What a batch is about to accept, and its facts; nil if it is not there.
local function batch_to_fill(uid)
  local f = call('HMGET', P .. 'b:' .. uid, 'state', 'size', 'submitted', 'k', 'first', 'deadline',
    'rank', 'reserved', 'gathers')
  if not f[1] then return nil end
  return { state = f[1], size = tonumber(f[2]), submitted = tonumber(f[3]), k = tonumber(f[4]),
    first = f[5], deadline = f[6], rank = f[7], reserved = f[8], gathers = f[9] }
end

-- Job numbers of the rows that are staged, by row; nil: some are not staged any more.
local function staged_numbers(ranges)
  local numbers = {}
  for i = 1, #ranges, 2 do
    if not call('ZSCORE', P .. 'staged', staged_name(ranges[i], ranges[i + 1])) then return nil end
    for n = 0, ranges[i + 1] - 1 do numbers[#numbers + 1] = ranges[i] + n end
  end
  return numbers
end

-- The rows that the batch does not have yet: their places, groups and size; or a refusal.
local function find_fresh(uid, b, rows)
  local count, ids = #rows / WIDTH, {}
  for i = 1, count do ids[i] = rows[(i - 1) * WIDTH + 1] end
  local known = count > 0 and not b.is_new and read_slices(P .. 'd:' .. uid, ids) or {}
  local digests, members = {}, {}
  local t = { fresh = {}, groups = {}, members = members, bytes = 0, count = count, ids = ids }
  for i = 1, count do
    local at = (i - 1) * WIDTH
    local id, group, digest = ids[i], rows[at + 2], rows[at + 3]
    local there = known[i] or digests[id]
    if there and there ~= digest then return { 'CONFLICT', i - 1 } end
    if not there then
      digests[id] = digest
      t.fresh[#t.fresh + 1] = i
      t.bytes = t.bytes + rows[at + 6]
      if group ~= '' then
        if not members[group] then
          members[group] = {}
          t.groups[#t.groups + 1] = group
        end
        table.insert(members[group], i)
      elseif b.gathers then
        return { 'NO_GROUP', i - 1 }
      end
    end
  end
  return nil, t
end

local function check_groups(uid, b, t)
  local k = b.k
  if k == 0 and b.gathers then k = GROUP_JUDGED_MAX end
  t.sizes = #t.groups > 0 and not b.is_new and read_slices(P .. 'gs:' .. uid, t.groups) or {}
  for i, group in ipairs(t.groups) do
    local before, more = tonumber(t.sizes[i] or 0), #t.members[group]
    if k > 0 and before + more > k then
      return { 'OVER_GROUP', t.members[group][k - before + 1] - 1 }
    end
    t.sizes[i] = before + more
  end
end

-- `limits`: requests_max, bytes_max, worker_us_max ('' = any)
local function check_quotas(tenant, b, t, limits)
  local requests, bytes = string.match(b.reserved or '0 0', '^(%d+) (%d+)$')
  t.left_requests = math.max(0, tonumber(requests) - #t.fresh)
  t.left_bytes = math.max(0, tonumber(bytes) - t.bytes)
  t.more_requests = #t.fresh - (tonumber(requests) - t.left_requests)
  t.more_bytes = t.bytes - (tonumber(bytes) - t.left_bytes)
  if t.more_requests > tonumber(limits[1]) then return { 'OVER_REQUESTS' } end
  if t.more_bytes > tonumber(limits[2]) then return { 'OVER_BYTES' } end
  if t.more_requests > 0 or t.more_bytes > 0 then -- beyond what the batch took when it opened
    local held = call('HMGET', P .. 'quota:' .. tenant, 'requests', 'bytes')
    for i = 1, 2 do held[i] = tonumber(held[i] or 0) end
    if b.is_new then -- `write_opening` comes later
      held[1], held[2] = held[1] + tonumber(requests), held[2] + tonumber(bytes)
    end
    if t.more_requests > 0 and held[1] + t.more_requests > tonumber(limits[1]) then
      return { 'QUOTA_REQUESTS' }
    end
    if t.more_bytes > 0 and held[2] + t.more_bytes > tonumber(limits[2]) then
      return { 'QUOTA_BYTES' }
    end
    t.held = held
  end
  if limits[3] ~= '' then
    local left_ms = rest_ms(tenant, tonumber(limits[3]))
    if left_ms > 0 then return { 'QUOTA_WORKERS', left_ms } end
  end
end

-- A refusal; or nil, and what `accept` needs: nothing is fresh if its `fresh` is empty.
local function check_requests(tenant, uid, b, rows, limits)
  local refusal, t = find_fresh(uid, b, rows)
  if refusal or #t.fresh == 0 then return refusal, t end
  if b.state ~= 'OPEN' then return { 'NOT_OPEN' } end
  if b.submitted + #t.fresh > (b.size > 0 and b.size or BATCH_REQUESTS_MAX) then
    return { 'OVER_SIZE' }
  end
  refusal = check_groups(uid, b, t) or check_quotas(tenant, b, t, limits)
  if refusal then return refusal end
  for _, i in ipairs(t.fresh) do
    for hash in string.gmatch(rows[i * WIDTH], '%S+') do
      if call('EXISTS', P .. 'bl:' .. hash) == 0 then return { 'NO_BLOB' } end
    end
  end
  return nil, t
end

local function hold_blobs(hashes)
  for hash in string.gmatch(hashes, '%S+') do
    call('INCR', P .. 'br:' .. hash)
    call('PERSIST', P .. 'bl:' .. hash)
  end
end

-- Store the jobs of the fresh rows; returns their names, places in the queue, and digests by id.
local function store_jobs(uid, b, rows, t, ranges, numbers)
  local place, packed = score(b.deadline, b.rank), pack_new_job(uid, b.first, b.gathers)
  local sequence = 0
  if #ranges == 0 then sequence = call('INCRBY', P .. 'seq', #t.fresh) - #t.fresh end
  local jobs, queue, digests = {}, {}, {}
  for n, i in ipairs(t.fresh) do
    local at = (i - 1) * WIDTH
    local job = job_name(numbers[i] or sequence + n)
    if not numbers[i] then store_new_job(job, packed, rows[at + 4], rows[at + 5]) end
    if rows[at + 7] ~= '' then hold_blobs(rows[at + 7]) end
    jobs[n] = job
    queue[2 * n - 1], queue[2 * n] = place, job
    digests[2 * n - 1], digests[2 * n] = t.ids[i], rows[at + 3]
    numbers[i] = nil
  end
  write_payloads()
  for _, number in pairs(numbers) do forget_new_job(job_name(number)) end -- duplicates
  for i = 1, #ranges, 2 do call('ZREM', P .. 'staged', staged_name(ranges[i], ranges[i + 1])) end
  delete(doomed)
  return jobs, queue, digests
end

-- At most `queue_max` into the queue; the rest is held back for `release`.
local function queue_jobs(tenant, uid, stage, queue, queue_max)
  if #queue > 2 * queue_max then
    local held = {}
    for i = 2 * queue_max + 1, #queue do held[#held + 1] = queue[i] end
    for i = #queue, 2 * queue_max + 1, -1 do queue[i] = nil end
    in_slices('ZADD', P .. 'held:' .. uid, held)
    call('ZADD', P .. 'holding', NOW_MS, uid)
  end
  if #queue > 0 then
    in_slices('ZADD', P .. 'q:' .. stage .. ':' .. tenant, queue)
    join(stage, tenant)
    mark(stage)
  end
end

-- Write what `check_requests` has found acceptable. Returns as `submit` does.
local function accept(tenant, uid, b, rows, t, ranges, numbers, queue_max)
  local stage, gathers = b.first, b.gathers
  local jobs, queue, digests = store_jobs(uid, b, rows, t, ranges, numbers)
  local group_writes = {}
  for i, group in ipairs(t.groups) do
    group_writes[2 * i - 1], group_writes[2 * i] = group, t.sizes[i]
    if gathers then count_live(uid, group, #t.members[group]) end
  end
  if stage == gathers then -- they wait for their groups, not in the queue
    for n, i in ipairs(t.fresh) do gather(uid, rows[(i - 1) * WIDTH + 2], jobs[n]) end
    queue = {}
  end
  queue_jobs(tenant, uid, stage, queue, queue_max)
  in_slices('HSET', P .. 'd:' .. uid, digests)
  in_slices('HSET', P .. 'gs:' .. uid, group_writes)
  in_slices('SADD', P .. 'live:' .. uid, jobs)
  local sealed, more = b.size > 0 and b.submitted + #t.fresh == b.size, false
  call('HSET', P .. 'b:' .. uid, 'submitted', b.submitted + #t.fresh,
    'state', sealed and 'SEALED' or b.state,
    'reserved', string.format('%.0f %.0f', t.left_requests, t.left_bytes))
  if t.held then
    call('HSET', P .. 'quota:' .. tenant, 'requests', t.held[1] + t.more_requests,
      'bytes', t.held[2] + t.more_bytes)
  end
  if stage == gathers then open_if_complete(uid, batch_facts(uid, {}), t.groups) end
  if b.submitted == 0 and not b.is_new then tell_planners() end
  if sealed and (gathers or not b.is_new) then
    more = settle_groups(uid, SLICE)
    tell(uid)
  end
  return { 'DONE', #t.fresh, t.count - #t.fresh, sealed and 1 or 0, more and 1 or 0 }
end
