-- What goes when a job goes; dead letters. Included after gathering.lua.

local function drop_blobs(hashes)
  for hash in string.gmatch(hashes, '%S+') do
    if call('DECR', P .. 'br:' .. hash) <= 0 then
      call('DEL', P .. 'br:' .. hash, P .. 'bl:' .. hash)
    end
  end
end

local function drop_job(job, j)
  local hashes = static_of(j)[4]
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
  if not is_group(job) then return drop_job(job, j) end
  for _, member in ipairs(members_of(j)) do drop_job(member, read_job(member)) end
  drop_group_job(job, j, call('EXISTS', P .. 'b:' .. j.uid) == 1)
end

local function drop_letters(uid, letters_max)
  local letters = call('SRANDMEMBER', P .. 'dead:' .. uid, letters_max)
  for _, job in ipairs(letters) do drop_letter(job) end
end
