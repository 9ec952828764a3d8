-- Groups that one stage judges as a whole (`gathers` of their batch). Included after requests.lua.
--
-- A request that reaches that stage becomes a member (state 'G') of its group and waits in no queue.
-- When all requests of the group that have not ended are members, and no more can be submitted, a job
-- of the group's own is queued (`open_if_complete`): one lease, one fence, one report for all members.
-- A group is judged once: a request that arrives after that, by a replay, ends as INFRA_FAILED.
--
--   gn:<uid>           HASH    group -> its requests that have not ended
--   gm:<uid>:<group>   SET     its members
--   gw:<uid>           SET     groups with members that wait for others
--   gg:<uid>           HASH    group -> its own job, 'g%015d', from then on; at last 'judged'
-- The group's own job is a job whose static part has no request id, and its submitted requests in
-- place of bytes.

local GROUP_JOB = 103 -- 'g'
local JUDGED = 'judged'
local JUDGED_WITHOUT = 'the group was judged without this request'

local function is_group(job)
  return string.byte(job) == GROUP_JOB
end

local function group_of(j)
  return cmsgpack.unpack(j.static)[2]
end

local function members_key(uid, group)
  return P .. 'gm:' .. uid .. ':' .. group
end

local function members_of(j)
  local members = call('SMEMBERS', members_key(j.uid, group_of(j)))
  table.sort(members)
  return members
end

-- Requests that a job stands for.
local function requests_of(job, j)
  return is_group(job) and call('SCARD', members_key(j.uid, group_of(j))) or 1
end

local function count_live(uid, group, more)
  local key = P .. 'gn:' .. uid
  if call('HINCRBY', key, group, more) <= 0 then call('HDEL', key, group) end
end

-- A request becomes a member. False if its group was, or is being, judged without it.
local function gather(uid, group, job)
  local own_job = call('HGET', P .. 'gg:' .. uid, group)
  if own_job == JUDGED then return false end
  if own_job then
    if read_job(own_job, true).state ~= 'Q' then return false end
  else
    call('SADD', P .. 'gw:' .. uid, group)
  end
  call('SADD', members_key(uid, group), job)
  return true
end

-- The group's own job goes; `judged`: for good.
local function drop_group_job(own_job, j, judged)
  local uid, group = j.uid, group_of(j)
  doomed[#doomed + 1] = P .. 'j:' .. own_job
  doomed[#doomed + 1] = members_key(uid, group)
  if judged then
    call('HSET', P .. 'gg:' .. uid, group, JUDGED)
  else
    call('HDEL', P .. 'gg:' .. uid, group)
  end
end
