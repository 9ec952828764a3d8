#!lua
-- Accept requests, all or none. Keys: requests.lua.
-- ARGV: tenant batch requests_max bytes_max rows staged queue_max worker_us_max
--   rows: packed {request, group, digest, static, payload, bytes, blobs} each, in one list
--   staged: packed {first job, count} each, in one list, of the rows that `stage` has stored (all of
--     them, in order; their static and payload are ''); '' = none of them
--   worker_us_max: what the tenant may use of the workers in a day; '' = any
--   queue_max: this many go into the queue; the rest is held back for `release`
-- Returns {'DONE', accepted, duplicates, sealed, more_to_settle}
--      or {'NOT_FOUND' | 'NOT_OPEN' | 'OVER_SIZE' | 'QUOTA_REQUESTS' | 'QUOTA_BYTES' | 'NO_BLOB' |
--          'NOT_STAGED'}
--      or {'QUOTA_WORKERS', ms until it may submit again}
--      or {'CONFLICT' | 'OVER_GROUP' | 'NO_GROUP', index}
--@include requests.lua
--@include shares.lua
--@include worker_time.lua
--@include task_use.lua
--@include new_jobs.lua
--@include gathering.lua
--@include letters.lua
--@include ends.lua
--@include settling.lua

local tenant, batch = ARGV[1], ARGV[2]
local uid = tenant .. ':' .. batch
local rows, ranges = cmsgpack.unpack(ARGV[5]), {}
if ARGV[6] ~= '' then ranges = cmsgpack.unpack(ARGV[6]) end
local WIDTH = 7
local count = #rows / WIDTH
local facts = call('HMGET', P .. 'b:' .. uid, 'state', 'size', 'submitted', 'k', 'first', 'deadline',
  'rank', 'reserved', 'gathers')
local state, size, submitted, k = facts[1], tonumber(facts[2]), tonumber(facts[3]), tonumber(facts[4])
if k == 0 and facts[9] then k = GROUP_JUDGED_MAX end
if not state then return { 'NOT_FOUND' } end

local ids, numbers = {}, {} -- numbers: of the rows that are staged
for i = 1, count do ids[i] = rows[(i - 1) * WIDTH + 1] end
for i = 1, #ranges, 2 do
  if not call('ZSCORE', P .. 'staged', staged_name(ranges[i], ranges[i + 1])) then
    return { 'NOT_STAGED' }
  end
  for n = 0, ranges[i + 1] - 1 do numbers[#numbers + 1] = ranges[i] + n end
end
local known = count > 0 and read_slices(P .. 'd:' .. uid, ids) or {}

-- Check all; change nothing, but drop rows that were staged needlessly.
local fresh, digests, groups, members = {}, {}, {}, {}
local bytes = 0
for i = 1, count do
  local at = (i - 1) * WIDTH
  local id, group, digest = ids[i], rows[at + 2], rows[at + 3]
  local there = known[i] or digests[id]
  if there and there ~= digest then return { 'CONFLICT', i - 1 } end
  if not there then
    digests[id] = digest
    fresh[#fresh + 1] = i
    bytes = bytes + rows[at + 6]
    if group ~= '' then
      if not members[group] then
        members[group] = {}
        groups[#groups + 1] = group
      end
      table.insert(members[group], i)
    elseif facts[9] then
      return { 'NO_GROUP', i - 1 }
    end
  end
end
if #fresh == 0 then
  for i = 1, #ranges, 2 do unstage(ranges[i], ranges[i + 1]) end
  delete(doomed)
  return { 'DONE', 0, count, state ~= 'OPEN' and 1 or 0, 0 }
end
if state ~= 'OPEN' then return { 'NOT_OPEN' } end
if submitted + #fresh > (size > 0 and size or BATCH_REQUESTS_MAX) then return { 'OVER_SIZE' } end
local sizes = #groups > 0 and read_slices(P .. 'gs:' .. uid, groups) or {}
for i, group in ipairs(groups) do
  local before, more = tonumber(sizes[i] or 0), #members[group]
  if k > 0 and before + more > k then
    return { 'OVER_GROUP', members[group][k - before + 1] - 1 }
  end
  sizes[i] = before + more
end
local quota, held = P .. 'quota:' .. tenant, nil
local reserved_requests, reserved_bytes = string.match(facts[8] or '0 0', '^(%d+) (%d+)$')
local left_requests = math.max(0, tonumber(reserved_requests) - #fresh)
local left_bytes = math.max(0, tonumber(reserved_bytes) - bytes)
local more_requests = #fresh - (tonumber(reserved_requests) - left_requests)
local more_bytes = bytes - (tonumber(reserved_bytes) - left_bytes)
if more_requests > 0 or more_bytes > 0 then -- beyond what the batch took when it opened
  held = call('HMGET', quota, 'requests', 'bytes')
  for i = 1, 2 do held[i] = tonumber(held[i] or 0) end
  if more_requests > 0 and held[1] + more_requests > tonumber(ARGV[3]) then
    return { 'QUOTA_REQUESTS' }
  end
  if more_bytes > 0 and held[2] + more_bytes > tonumber(ARGV[4]) then return { 'QUOTA_BYTES' } end
end
if ARGV[8] ~= '' then
  local left_ms = rest_ms(tenant, tonumber(ARGV[8]))
  if left_ms > 0 then return { 'QUOTA_WORKERS', left_ms } end
end
for _, i in ipairs(fresh) do
  for hash in string.gmatch(rows[i * WIDTH], '%S+') do
    if call('EXISTS', P .. 'bl:' .. hash) == 0 then return { 'NO_BLOB' } end
  end
end

-- Accept them.
local stage, gathers = facts[5], facts[9]
local place = score(facts[6], facts[7])
local packed = pack_new_job(uid, stage, gathers)
local sequence = 0
if #ranges == 0 then sequence = call('INCRBY', P .. 'seq', #fresh) - #fresh end
local jobs, queue, digest_writes, group_writes = {}, {}, {}, {}
for n, i in ipairs(fresh) do
  local at = (i - 1) * WIDTH
  local job = job_name(numbers[i] or sequence + n)
  if not numbers[i] then store_new_job(job, packed, rows[at + 4], rows[at + 5]) end
  if rows[at + 7] ~= '' then
    for hash in string.gmatch(rows[at + 7], '%S+') do
      call('INCR', P .. 'br:' .. hash)
      call('PERSIST', P .. 'bl:' .. hash)
    end
  end
  jobs[n] = job
  queue[2 * n - 1], queue[2 * n] = place, job
  digest_writes[2 * n - 1], digest_writes[2 * n] = ids[i], rows[at + 3]
  numbers[i] = nil
end
write_payloads()
for _, number in pairs(numbers) do forget_new_job(job_name(number)) end -- duplicates
for i = 1, #ranges, 2 do call('ZREM', P .. 'staged', staged_name(ranges[i], ranges[i + 1])) end
delete(doomed)
for i, group in ipairs(groups) do
  group_writes[2 * i - 1], group_writes[2 * i] = group, sizes[i]
end
if gathers then
  for i, group in ipairs(groups) do count_live(uid, group, #members[group]) end
end
if stage == gathers then -- they wait for their groups, not in the queue
  for n, i in ipairs(fresh) do gather(uid, rows[(i - 1) * WIDTH + 2], jobs[n]) end
  queue = {}
end
local queue_max = 2 * tonumber(ARGV[7])
if #queue > queue_max then
  local held = {}
  for i = queue_max + 1, #queue do held[#held + 1] = queue[i] end
  for i = #queue, queue_max + 1, -1 do queue[i] = nil end
  in_slices('ZADD', P .. 'held:' .. uid, held)
  call('ZADD', P .. 'holding', NOW_MS, uid)
end
if #queue > 0 then
  in_slices('ZADD', P .. 'q:' .. stage .. ':' .. tenant, queue)
  join(stage, tenant)
  mark(stage)
end
in_slices('HSET', P .. 'd:' .. uid, digest_writes)
in_slices('HSET', P .. 'gs:' .. uid, group_writes)
in_slices('SADD', P .. 'live:' .. uid, jobs)
local sealed, more = size > 0 and submitted + #fresh == size, false
call('HSET', P .. 'b:' .. uid, 'submitted', submitted + #fresh, 'state', sealed and 'SEALED' or state,
  'reserved', string.format('%.0f %.0f', left_requests, left_bytes))
if held then
  call('HSET', quota, 'requests', held[1] + more_requests, 'bytes', held[2] + more_bytes)
end
if stage == gathers then open_if_complete(uid, batch_facts(uid, {}), groups) end
if submitted == 0 then tell_planners() end
if sealed then
  more = settle_groups(uid, SLICE)
  tell(uid)
end
return { 'DONE', #fresh, count - #fresh, sealed and 1 or 0, more and 1 or 0 }
