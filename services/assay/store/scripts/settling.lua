-- The end of a batch, in chunks; requests that are withdrawn or were held back. Included after
-- ends.lua.

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

-- Log the groups of a sealed batch that waited for the seal; returns how many.
local function tell_waiting_groups(uid, groups_max)
  local waiting = call('SPOP', P .. 'gp:' .. uid, groups_max)
  if #waiting == 0 then return 0 end
  table.sort(waiting)
  local submitted = read_slices(P .. 'gs:' .. uid, waiting)
  local states = read_slices(P .. 'g:' .. uid, waiting)
  local writes, log, grouped, shift = {}, {}, 0, 0
  for i, group in ipairs(waiting) do
    local ended, told, rewards = string.match(states[i], '^(%d+) (%d) (.*)$')
    if told == '0' and ended == submitted[i] then
      log[#log + 1] = group_entry(group, rewards)
      grouped, shift = grouped + ended, shift + zero_shift(rewards)
      writes[#writes + 1] = group
      writes[#writes + 1] = ended .. ' 1 ' .. rewards
    end
  end
  count_shift(uid, grouped, shift)
  in_slices('RPUSH', P .. 'r:' .. uid, log)
  in_slices('HSET', P .. 'g:' .. uid, writes)
  return #waiting
end

local withdraw

-- A member leaves its group; with the last one the group's own job goes.
local function leave_group(job, j, tenant)
  local group = group_of(j)
  local key, own_job = members_key(j.uid, group), call('HGET', P .. 'gg:' .. j.uid, group)
  call('SREM', key, job)
  local left = call('SCARD', key)
  if not own_job then
    if left == 0 then call('SREM', P .. 'gw:' .. j.uid, group) end
    return
  end
  local own = read_job(own_job)
  if own.state == 'L' then touch(j.uid).running = touch(j.uid).running - 1 end
  if left > 0 then return end
  withdraw(own_job, own, tenant)
  drop_group_job(own_job, own, false)
end

-- Take a job out of its queue, or away from its worker; the time that it held the worker is charged
-- in whole seconds, where that is more than it was charged before.
function withdraw(job, j, tenant)
  if j.state == 'G' then return leave_group(job, j, tenant) end
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
  spend(tenant, held_us)
end

-- Queue the groups of a sealed batch that waited for requests to be submitted; returns how many
-- were looked at.
local function open_waiting_groups(uid, b, groups_max)
  if not b.gathers then return 0 end
  local waiting = call('SPOP', P .. 'gw:' .. uid, groups_max)
  open_if_complete(uid, b, waiting)
  return #waiting
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
  left = open_waiting_groups(uid, b, steps_max) == steps_max or left
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
